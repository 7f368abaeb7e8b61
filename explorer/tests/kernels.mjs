// Answers questions of tests/explorer/test_kernels.py under node: a JSON file in, a JSON file out.
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

/** Of a Poisson sample. */
const LAW = { add_remove: 0, zero_out: 0, replace_one: 3 };

/** Numbers as text: JSON has no infinity. */
const texts = (values) => [...values].map(String);

const QUESTIONS = {
  libm: async (cases) => Promise.all(cases.map(libm)),
  epsilon: async ({ noise, rate, steps, delta, relation }) => {
    const { kernel } = await page();
    return relation.map((one, i) => {
      const found = kernel.epsilon([[noise[i], rate[i], steps[i], LAW[one]]], delta[i]);
      return [String(found.lower[0]), String(found.upper[0]), found.status[0]];
    });
  },
  tpr: async (runs) => {
    const { kernel } = await page();
    return runs.map(({ noise, rate, steps, relation, fpr }) =>
      texts(kernel.tpr([noise, rate, steps, LAW[relation]], fpr)));
  },
  samplers: async (runs) => {
    const { kernel, epsilonOf, rateOfAttack, wanted, allSteps } = await page();
    return runs.map((run) => {
      const { lower, upper, status } = epsilonOf(kernel, run);
      const tpr = texts((run.fpr ?? []).map((fpr) => rateOfAttack(kernel, run, upper, fpr)));
      const noise = run.target ? String(wanted(kernel, run, run.target).noise) : "";
      return { lower: String(lower), upper: String(upper), status, steps: allSteps(run), tpr, noise };
    });
  },
  pair: async (cases) => {
    const { kernel } = await page();
    return cases.map(({ epsilon, delta, fpr }) => texts(kernel.pairTpr(epsilon, delta, fpr)));
  },
  noise: async (cases) => {
    const { kernel } = await page();
    return cases.map(({ epsilon, delta, rate, steps, relation }) =>
      String(kernel.noise(epsilon, delta, [1, rate, steps, LAW[relation]])));
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
      const map = [...grids(kernel, run, Infinity, Infinity)].at(-1);
      return { ...curves(kernel, run, Infinity), map: { ...map, epsilon: texts(map.epsilon) } };
    });
  },
  runs: async (runs) => {
    const { rateOf, allSteps, pythonLine, asHash, fromHash } = await page();
    return runs.map((run) => ({
      rate: String(rateOf(run)),
      steps: allSteps(run),
      python: pythonLine(run),
      back: fromHash(asHash(run)).run,
      refused: fromHash(asHash(run)).refused.length,
    }));
  },
  links: async (links) => {
    const { fromHash, refusalText } = await page();
    return links.map((link) => {
      const { run, refused } = fromHash(link);
      return { run, refused: refused.map(({ name }) => name), said: refused.map(refusalText) };
    });
  },
  digits: async (numbers) => {
    const { above, below, percentAbove } = await page();
    return numbers.map((x) => [above(x), below(x), above(x, 12), below(x, 12), percentAbove(Math.min(x, 1))]);
  },
};

const { kind, cases } = JSON.parse(readFileSync(given, "utf8"));
writeFileSync(out, JSON.stringify(await QUESTIONS[kind](cases)));
