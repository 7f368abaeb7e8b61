// What the page asks of the kernels, one function a kind of question.

import { EPSILON, type Kernel, LOG_DELTA, type Steps } from "./kernel";
import { KERNEL_RELATION, rateOf, type Run, stepsOf } from "./run";

export interface Answer {
  run: Run;
  steps: number;
  lower: number;
  upper: number;
  status: number;
  /** Largest true-positive rate at 1 % false positives: of the run, and of its (epsilon, delta) alone. */
  tpr: number;
  pairTpr: number;
}

export interface Curves {
  run: Run;
  epsilon: number;
  curve: { epsilon: number; delta: number }[];
  attack: { fpr: number; tpr: number; pair: number }[];
  epochs: { epochs: number; epsilon: number }[];
}

export interface Grid {
  run: Run;
  batch: number[];
  noise: number[];
  /** Upper bounds of epsilon, row by row: one noise multiplier a row. */
  epsilon: Float64Array;
  ms: number;
}

export interface Wanted {
  run: Run;
  epsilon: number;
  noise: number;
}

const between = (low: number, high: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) => low * (high / low) ** (i / (n - 1)));

export const runSteps = (run: Run): Steps =>
  [run.noise, rateOf(run), stepsOf(run.epochs, run.records, run.batch), KERNEL_RELATION[run.relation]] as const;

const PLAIN_DELTA = 0.9999;
const PLAIN_EPSILON = 10;

/**
 * Largest true-positive rates at false-positive rates from 1e-4 on.  Where delta is 0.9999 at epsilon 10, an attack has
 * at least that at 5e-5, and 1 is near enough: the search would take long.
 */
function rates(kernel: Kernel, given: Steps, fpr: number[]): Float64Array {
  const plain = kernel.read(given, EPSILON, [PLAIN_DELTA]).lower[0] ?? 0;
  return plain >= PLAIN_EPSILON ? new Float64Array(fpr.length).fill(1) : kernel.tpr(given, fpr);
}

export function answer(kernel: Kernel, run: Run): Answer {
  const given = runSteps(run);
  const found = kernel.read(given, EPSILON, [run.delta]);
  const upper = found.upper[0] ?? Infinity;
  const tpr = rates(kernel, given, [0.01])[0] ?? 1;
  const pairTpr = kernel.pairTpr(upper, run.delta, [0.01])[0] ?? 1;
  return { run, steps: given[2], lower: found.lower[0] ?? 0, upper, status: found.status[0] ?? 3, tpr, pairTpr };
}

/** The end of an axis: 1, 2 or 5 times a power of 10. */
export function niceEnd(x: number): number {
  const power = 10 ** Math.floor(Math.log10(x));
  return ([1, 2, 5].find((one) => one * power >= x) ?? 10) * power;
}

/** Where the axis of delta ends. */
export const leastDelta = (run: Run): number => 10 ** Math.floor(Math.log10(run.delta * 1e-3));

const CURVE_POINTS = 41;
/** Three a decade, 0.01 among them. */
const FPR = [...Array.from({ length: 12 }, (_, i) => Number((10 ** (i / 3 - 4)).toPrecision(4))), 0.7, 0.9, 0.99];
const EPOCHS = between(1, 1000, 19);

export function curves(kernel: Kernel, run: Run): Curves {
  const given = runSteps(run);
  const [epsilon = Infinity, far = Infinity] = kernel.read(given, EPSILON, [run.delta, leastDelta(run)]).upper;
  const last = Math.min(Math.max(far, 1e-3), 1e4); // beyond it answers take longer, and are not shown
  const at = Array.from({ length: CURVE_POINTS }, (_, i) => (last * i) / (CURVE_POINTS - 1));
  const logs = kernel.read(given, LOG_DELTA, at).upper;
  const tpr = rates(kernel, given, FPR);
  const pair = kernel.pairTpr(epsilon, run.delta, FPR);
  const steps = EPOCHS.map((epochs) => stepsOf(epochs, run.records, run.batch));
  const same = (x: number): number[] => EPOCHS.map(() => x);
  const spent = kernel.epsilon(same(given[0]), same(given[1]), steps, same(run.delta), given[3]).upper;
  return {
    run,
    epsilon,
    curve: at.map((one, i) => ({ epsilon: one, delta: Math.exp(logs[i] ?? 0) })),
    attack: FPR.map((fpr, i) => ({ fpr, tpr: tpr[i] ?? 1, pair: pair[i] ?? 1 })),
    epochs: EPOCHS.map((epochs, i) => ({ epochs, epsilon: spent[i] ?? Infinity })),
  };
}

const MAP_CELLS = 25;
const MAP_STRIDES = [4, 2, 1];
const MAP_MS = 350;

/**
 * Epsilon over batch size and noise: the finest of three lattices that is done in time, then the finest of all.
 * Undefined after each row, so that a worker can look for a newer question.
 */
export function* grids(kernel: Kernel, run: Run, limit = MAP_MS): Generator<Grid | undefined> {
  const begin = performance.now();
  const most = Math.min(run.records, 65536);
  const batch = between(Math.max(1, most / 4096), most, MAP_CELLS);
  const noise = between(0.4, 10, MAP_CELLS);
  const columns = batch.map((size) => runSteps({ ...run, batch: size }));
  const known = new Float64Array(MAP_CELLS * MAP_CELLS).fill(NaN);
  let done = 0;
  let isShown = false;
  for (const stride of MAP_STRIDES) {
    for (let row = 0; row < MAP_CELLS; row += stride) {
      if (done && !isShown && performance.now() - begin > limit) {
        isShown = true;
        yield picked(run, batch, noise, known, done, begin);
      }
      fillRow(kernel, run, row, noise[row] ?? 1, columns, known, stride);
      yield undefined;
    }
    done = stride;
  }
  yield picked(run, batch, noise, known, done, begin);
}

/** The cells of a row that are of a lattice and not known yet. */
function fillRow(
  kernel: Kernel, run: Run, row: number, noise: number, columns: Steps[], known: Float64Array, stride: number,
): void {
  const at = columns.map((_, i) => i).filter((i) => i % stride === 0 && Number.isNaN(known[row * MAP_CELLS + i]));
  const column = (j: 1 | 2): number[] => at.map((i) => columns[i]?.[j] ?? 0);
  const same = (x: number): number[] => at.map(() => x);
  const found = kernel.epsilon(same(noise), column(1), column(2), same(run.delta), KERNEL_RELATION[run.relation]);
  at.forEach((i, j) => {
    known[row * MAP_CELLS + i] = found.upper[j] ?? Infinity;
  });
}

function picked(run: Run, batch: number[], noise: number[], known: Float64Array, stride: number, begin: number): Grid {
  const every = (_: unknown, i: number): boolean => i % stride === 0;
  const epsilon = known.filter((_, i) => every(_, i % MAP_CELLS) && every(_, Math.floor(i / MAP_CELLS)));
  return { run, batch: batch.filter(every), noise: noise.filter(every), epsilon, ms: performance.now() - begin };
}

/** The noise multiplier for a target. */
export function wanted(kernel: Kernel, run: Run, epsilon: number): Wanted {
  const [, rate, steps, relation] = runSteps(run);
  return { run, epsilon, noise: kernel.noise(epsilon, run.delta, rate, steps, relation) };
}
