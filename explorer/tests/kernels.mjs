// Answers questions of tests/test_explorer.py under node: a JSON file in, a JSON file out.
//
//   node kernels.mjs PYTHON IN OUT

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { compiled } from "../build.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const [python, given, out] = process.argv.slice(2);
const wasm = (name) => readFileSync(compiled(name, python));

async function page() {
  const options = { bundle: true, format: "esm", target: "es2022", write: false, define: { VERSION: '"test"' } };
  const made = await build({ ...options, entryPoints: [join(HERE, "entry.ts")] });
  const found = await import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString("base64")}`);
  return { ...found, kernel: await found.Kernel.of(wasm("explorer")) };
}

async function libm({ name, x, y }) {
  const { instance } = await WebAssembly.instantiate(wasm("libm"), {});
  const { exports } = instance;
  exports._initialize();
  const at = [x, y, x].map((values) => {
    const place = exports.libm_alloc(8 * values.length);
    new Float64Array(exports.memory.buffer, place, values.length).set(values);
    return place;
  });
  exports[`${name}_all`](x.length, ...at);
  return [...new Float64Array(exports.memory.buffer, at[2], x.length)].map(String);
}

/** Numbers as text: JSON has no infinity. */
const texts = (values) => [...values].map(String);

const QUESTIONS = {
  libm: async (cases) => Promise.all(cases.map(libm)),
  epsilon: async ({ noise, rate, steps, delta, relation }) => {
    const { kernel, KERNEL_RELATION } = await page();
    return relation.map((one, i) => {
      const found = kernel.epsilon([noise[i]], [rate[i]], [steps[i]], [delta[i]], KERNEL_RELATION[one]);
      return [String(found.lower[0]), String(found.upper[0]), found.status[0]];
    });
  },
  tpr: async (runs) => {
    const { kernel, KERNEL_RELATION } = await page();
    return runs.map(({ noise, rate, steps, relation, fpr }) =>
      texts(kernel.tpr([noise, rate, steps, KERNEL_RELATION[relation]], fpr)));
  },
  pair: async (cases) => {
    const { kernel } = await page();
    return cases.map(({ epsilon, delta, fpr }) => texts(kernel.pairTpr(epsilon, delta, fpr)));
  },
  noise: async (cases) => {
    const { kernel, KERNEL_RELATION } = await page();
    return cases.map(({ epsilon, delta, rate, steps, relation }) =>
      String(kernel.noise(epsilon, delta, rate, steps, KERNEL_RELATION[relation])));
  },
  refused: async (cases) => {
    const { kernel } = await page();
    return cases.map(([noise, rate, steps, relation, delta]) => {
      const found = kernel.read([noise, rate, steps, relation], 0, [delta]);
      return [String(found.lower[0]), String(found.upper[0]), found.status[0]];
    });
  },
  curves: async (runs) => {
    const { kernel, curves, grids } = await page();
    return runs.map((run) => {
      const map = [...grids(kernel, run, Infinity)].at(-1);
      return { ...curves(kernel, run), map: { ...map, epsilon: texts(map.epsilon) } };
    });
  },
  runs: async (runs) => {
    const { rateOf, stepsOf, pythonLine, asHash, fromHash } = await page();
    return runs.map((run) => ({
      rate: String(rateOf(run)),
      steps: stepsOf(run.epochs, run.records, run.batch),
      python: pythonLine(run),
      back: fromHash(asHash(run)),
    }));
  },
  digits: async (numbers) => {
    const { above, below, percentAbove } = await page();
    return numbers.map((x) => [above(x), below(x), above(x, 12), below(x, 12), percentAbove(Math.min(x, 1))]);
  },
};

const { kind, cases } = JSON.parse(readFileSync(given, "utf8"));
writeFileSync(out, JSON.stringify(await QUESTIONS[kind](cases)));
