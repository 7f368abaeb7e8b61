// Builds fastacct/explorer/index.html: kernels by `zig cc`, scripts by esbuild, all in one file.
//
//   node build.mjs [python]          python: one that has the wheel ziglang

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { fields } from "./fields.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "..");
const MADE = join(HERE, "made");
export const PAGE = join(ROOT, "fastacct", "explorer", "index.html");
const MOST_BYTES = 400_000; // of the page beside the chart library
// zig puts a stack of 16 MiB at address 0: one that overflows traps, and overwrites nothing
const FLAGS = [
  ..."-target wasm32-wasi -mexec-model=reactor -O2 -msimd128 -fopenmp-simd".split(" "),
  ..."-fno-math-errno -fno-trapping-math -ffp-contract=off -Wno-pass-failed -Wl,--strip-all".split(" "),
];

/** The newest change of a folder's files. */
const changed = (folder) =>
  Math.max(...readdirSync(folder, { recursive: true }).map((name) => statSync(join(folder, name)).mtimeMs));

/** Compiles wasm/<name>.c to made/<name>.wasm, unless that is newer than its sources. */
export function compiled(name, python) {
  const out = join(MADE, `${name}.wasm`);
  const sources = [join(HERE, "wasm"), join(ROOT, "fastacct_ext", "include"), join(ROOT, "fastacct_ext", "src")];
  const newest = Math.max(...sources.map(changed), statSync(join(ROOT, "fastacct_ext", "fastacct.c")).mtimeMs,
    statSync(join(HERE, "build.mjs")).mtimeMs);
  if (existsSync(out) && statSync(out).mtimeMs > newest) return out;
  mkdirSync(MADE, { recursive: true });
  const source = join(HERE, "wasm", `${name}.c`);
  execFileSync(python, ["-m", "ziglang", "cc", ...FLAGS, "-I", join(ROOT, "fastacct_ext"), "-o", out, source], {
    stdio: "inherit",
  });
  return out;
}

const OPTIONS = { bundle: true, minify: true, target: "es2022", legalComments: "none", logLevel: "warning" };
const version = () => /__version__[^"]*"([^"]+)"/.exec(readFileSync(join(ROOT, "fastacct/core/version.py"), "utf8"))[1];

/** A script as text, and how many bytes of it are of a package. */
async function script(entry, plugins = []) {
  const define = { VERSION: JSON.stringify(version()) };
  const entryPoints = [join(HERE, "src", entry)];
  const made = await build({ ...OPTIONS, entryPoints, format: "iife", write: false, metafile: true, define, plugins });
  return { text: made.outputFiles[0].text, meta: made.metafile };
}

const workerIn = (text) => ({
  name: "worker",
  setup(given) {
    given.onResolve({ filter: /^virtual:worker$/ }, (one) => ({ path: one.path, namespace: "virtual" }));
    given.onLoad({ filter: /.*/, namespace: "virtual" }, () => ({ contents: text, loader: "text" }));
  },
});

/** The packages in a bundle, by folder. */
function packagesIn(meta) {
  const found = new Set();
  for (const name of Object.keys(Object.values(meta.outputs)[0].inputs)) {
    const match = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(name);
    if (match) found.add(match[1]);
  }
  return [...found].sort();
}

function notices(meta) {
  return packagesIn(meta).map((folder) => {
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
    if (!file) throw new Error(`${about.name} has no licence file`);
    return `${about.name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  }).join("\n\n");
}

/** Notices of the C library in the kernels: wasi-libc (here under MIT), which holds musl. */
function noticesOfLibc(python) {
  const code = "import ziglang; print(ziglang.__path__[0])";
  const libc = join(execFileSync(python, ["-c", code], { encoding: "utf8" }).trim(), "lib", "libc");
  const files = ["wasi/LICENSE", "wasi/LICENSE-MIT", "musl/COPYRIGHT"];
  const texts = files.map((name) => readFileSync(join(libc, name), "utf8"));
  return `wasi-libc and musl, in the kernels\n\n${texts.map((text) => text.trim()).join("\n\n")}\n`;
}

const bytesOfPackages = (meta) =>
  Object.entries(Object.values(meta.outputs)[0].inputs).reduce(
    (sum, [name, { bytesInOutput }]) => sum + (name.includes("node_modules/") ? bytesInOutput : 0), 0);

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

async function page(python) {
  const kernels = gzipSync(readFileSync(compiled("explorer", python)), { level: 9 }).toString("base64");
  const worker = await script("worker.ts");
  const main = await script("page.ts", [workerIn(worker.text)]);
  const style = await build({ ...OPTIONS, entryPoints: [join(HERE, "src", "style.css")], write: false });
  const licences = `${notices(main.meta)}\n\n${noticesOfLibc(python)}`;
  const parts = {
    "<!-- LICENCES -->": "<!-- Licences of the libraries in this page stand at its end. -->",
    "/* STYLE */": style.outputFiles[0].text,
    "<!-- FIELDS -->": fields,
    "<!-- VERSION -->": version(),
    "<!-- NOTICES -->": escaped(licences),
    "<!-- KERNELS -->": kernels,
    "/* SCRIPT */": main.text.replaceAll("</script", "<\\/script"),
  };
  let html = readFileSync(join(HERE, "index.template.html"), "utf8");
  for (const [mark, text] of Object.entries(parts)) html = html.replace(mark, () => text);
  const library = bytesOfPackages(main.meta) + Buffer.byteLength(licences);
  const own = Buffer.byteLength(html) - library;
  if (own > MOST_BYTES) throw new Error(`the page has ${own} bytes beside the chart library, more than ${MOST_BYTES}`);
  mkdirSync(dirname(PAGE), { recursive: true });
  writeFileSync(PAGE, html);
  console.log(`${PAGE}: ${Buffer.byteLength(html)} bytes, ${own} of them beside the chart library and its licences`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const python = process.argv[2] ?? "python3";
  compiled("libm", python); // for the tests
  await page(python);
}
