// What the page asks of the kernels, one function a kind of question.

import { EPSILON, type Kernel, LOG_DELTA, type Steps } from "./kernel";
import type { Run } from "./run";
import { allSteps, FIXED_SIZE, lawsOf, SAMPLED, SAMPLERS } from "./sampling";

export interface Answer {
  run: Run;
  steps: number;
  lower: number;
  upper: number;
  status: number;
  /** Whether the interval is all that is known of these batches. */
  isApart: boolean;
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
  /** What is said below a chart that does not show all. */
  notes: { curve: string; attack: string; epochs: string };
}

export interface Grid {
  run: Run;
  batch: number[];
  noise: number[];
  /** Upper bounds of epsilon, row by row: one noise multiplier a row. */
  epsilon: Float64Array;
  ms: number;
  note: string;
}

export interface Wanted {
  run: Run;
  epsilon: number;
  noise: number;
}

const between = (low: number, high: number, n: number): number[] =>
  Array.from({ length: n }, (_, i) => low * (high / low) ** (i / (n - 1)));

const PLAIN_DELTA = 0.9999;
const PLAIN_EPSILON = 10;

/**
 * Largest true-positive rates at false-positive rates from 1e-4 on.  Where delta is 0.9999 at epsilon 10, an attack has
 * at least that at 5e-5, and 1 is near enough: the search would take long.
 */
function rates(kernel: Kernel, given: Steps): (fpr: number[]) => Float64Array {
  const plain = kernel.read(given, EPSILON, [PLAIN_DELTA]).lower[0] ?? 0;
  return (fpr) => (plain >= PLAIN_EPSILON ? new Float64Array(fpr.length).fill(1) : kernel.tpr(given, fpr));
}

/** The smallest of what (epsilon, delta) allow at false-positive rates, over points of a curve of both directions. */
function ratesOf(kernel: Kernel, epsilons: number[], logs: Float64Array, fpr: number[]): Float64Array {
  const best = new Float64Array(fpr.length).fill(1);
  epsilons.forEach((epsilon, i) => {
    const delta = Math.exp(logs[i] ?? 0) * (1 + 1e-12);
    kernel.pairTpr(epsilon, delta, fpr).forEach((one, j) => (best[j] = Math.min(best[j] ?? 1, one)));
  });
  return best;
}

const ROUNDS = 3;
const TRIED = 9;
const MOST = 30;

/** The largest true-positive rate by points of the curve, where the best test's threshold is dear: a few near it. */
function rateByPoints(kernel: Kernel, above: Steps, upper: number, fpr: number): number {
  let [low, high, best] = [0, Math.min(upper, MOST), 1];
  for (let round = 0; round < ROUNDS; round++) {
    const at = Array.from({ length: TRIED }, (_, i) => low + ((high - low) * i) / (TRIED - 1));
    const logs = kernel.read(above, LOG_DELTA, at).upper;
    const found = at.map((one, i) => ratesOf(kernel, [one], logs.slice(i, i + 1), [fpr])[0] ?? 1);
    const least = Math.min(...found);
    const place = found.indexOf(least);
    best = Math.min(best, least);
    [low, high] = [at[Math.max(0, place - 1)] ?? low, at[Math.min(TRIED - 1, place + 1)] ?? high];
  }
  return best;
}

const TIGHT = 0;
const LOOSE = 1;
const WIDE = 1e-6;

/** Bounds of epsilon: the upper one by the law above, the lower one by those below, unless it takes too long. */
export function epsilonOf(
  kernel: Kernel, run: Run, isQuick = false,
): Pick<Answer, "lower" | "upper" | "status" | "isApart"> {
  const laws = lawsOf(run);
  const { above, below, opposed } = isQuick && laws.opposed ? { above: laws.above, below: null } : laws;
  const found = kernel.read(above, EPSILON, [run.delta]);
  const [lower = 0, upper = Infinity, status = 3] = [found.lower[0], found.upper[0], found.status[0]];
  if (below === undefined) return { lower, upper, status, isApart: false };
  const ends = [below ? kernel.read(below, EPSILON, [run.delta]).lower[0] : 0];
  if (opposed) ends.push(kernel.shuffled(opposed, run.delta));
  const least = Math.min(upper, Math.max(...ends.map((one) => one ?? 0)));
  const isTight = upper < Infinity && upper - least <= WIDE * upper;
  return { lower: least, upper, status: Math.max(status, isTight ? TIGHT : LOOSE), isApart: !isTight };
}

/** The largest true-positive rate at a false-positive rate, where epsilon is `upper` at most. */
export function rateOfAttack(kernel: Kernel, run: Run, upper: number, fpr: number): number {
  const { above } = lawsOf(run);
  return above[3] === FIXED_SIZE ? rateByPoints(kernel, above, upper, fpr) : (rates(kernel, above)([fpr])[0] ?? 1);
}

/** All that is said of a run: epsilon's upper bound first, where a lower one or the rate takes long (0 and NaN then). */
export function* answers(kernel: Kernel, run: Run): Generator<Answer> {
  const laws = lawsOf(run);
  const found = epsilonOf(kernel, run, true);
  const pairTpr = kernel.pairTpr(found.upper, run.delta, [0.01])[0] ?? 1;
  const known = { run, steps: allSteps(run), ...found, pairTpr };
  if (laws.above[3] !== SAMPLED || laws.opposed) yield { ...known, tpr: NaN };
  const whole = laws.opposed ? epsilonOf(kernel, run) : {};
  yield { ...known, ...whole, tpr: rateOfAttack(kernel, run, found.upper, 0.01) };
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
const CHART_MS = 700;
const QUICK_MS = 5;

interface Refined {
  values: (number | undefined)[];
  note: string;
}

/**
 * Values at n points, coarse ones first, for as long as there is time; all at once where the first ones came quickly.
 * Strides divide n - 1, so that both ends are among the first.
 */
function refined(n: number, strides: number[], limit: number, ask: (at: number[]) => ArrayLike<number>): Refined {
  const values: (number | undefined)[] = Array<undefined>(n).fill(undefined);
  const begin = performance.now();
  let [left, pace] = [limit, 0];
  for (const stride of strides) {
    const isQuick = pace > 0 && left > limit - QUICK_MS;
    const at = values.map((_, i) => i).filter((i) => values[i] === undefined && (isQuick || i % stride === 0));
    if (!at.length) continue;
    if (pace * at.length > left) {
      const some = values.filter((one) => one !== undefined).length;
      return { values, note: `Drawn from ${some} points: ${n} would take too long for this run.` };
    }
    const start = performance.now();
    const found = ask(at);
    at.forEach((i, j) => (values[i] = found[j]));
    pace = (performance.now() - start) / at.length;
    left = limit - (performance.now() - begin);
  }
  return { values, note: "" };
}

type Point = Curves["curve"][number];

function curveOf(kernel: Kernel, above: Steps, last: number, here: Point, limit: number): [Point[], string] {
  const at = Array.from({ length: CURVE_POINTS }, (_, i) => (last * i) / (CURVE_POINTS - 1));
  const ask = (some: number[]): Float64Array => kernel.read(above, LOG_DELTA, some.map((i) => at[i] ?? 0)).upper;
  const { values, note } = refined(CURVE_POINTS, [4, 2, 1], limit, ask);
  const points = at.flatMap((epsilon, i) => {
    const log = values[i];
    return log === undefined ? [] : [{ epsilon, delta: Math.exp(log) }];
  });
  const isNothing = points.every((one) => one.delta >= 1);
  const place = points.findIndex((one) => one.epsilon >= here.epsilon); // the run's own point is known, too
  if (place > 0 && (points[place]?.epsilon ?? 0) > here.epsilon) points.splice(place, 0, here);
  return [points, isNothing ? "No delta below 1 is certified for this run." : note];
}

function attackOf(
  kernel: Kernel, run: Run, epsilon: number, curve: Point[], limit: number,
): [Curves["attack"], string] {
  const { above } = lawsOf(run);
  const pair = kernel.pairTpr(epsilon, run.delta, FPR);
  const isDear = above[3] === FIXED_SIZE;
  const logs = Float64Array.from(curve, (one) => Math.log(one.delta));
  const at = isDear
    ? (fpr: number[]): Float64Array => ratesOf(kernel, curve.map((one) => one.epsilon), logs, fpr)
    : rates(kernel, above);
  const { values, note } = refined(FPR.length, [3, 1], limit, (some) => at(some.map((i) => FPR[i] ?? 0.5)));
  const [last, here] = [FPR.length - 1, FPR.indexOf(0.01)];
  if (isDear) values[here] = rateByPoints(kernel, above, epsilon, 0.01);
  values[last] ??= 1; // nothing is above it
  const points = FPR.flatMap((fpr, i) => {
    const tpr = values[i];
    return tpr === undefined ? [] : [{ fpr, tpr, pair: pair[i] ?? 1 }];
  });
  const isAll = points.every((one) => one.tpr >= 1);
  const said = isDear ? `By ${curve.length} points of the curve of delta, each an upper bound.` : note;
  return [points, isAll ? "No attack is excluded: a rate of 100 % is not ruled out anywhere." : said];
}

function epochsOf(kernel: Kernel, run: Run, limit: number): [Curves["epochs"], string] {
  const at = EPOCHS.map((one) => (SAMPLERS[run.sampling].isByEpochs ? Math.round(one) : one));
  const cells = at.map((epochs) => lawsOf({ ...run, epochs }).above);
  const none = [0, 0, 0, 0] as const;
  const ask = (some: number[]): Float64Array => kernel.epsilon(some.map((i) => cells[i] ?? none), run.delta).upper;
  const { values, note } = refined(EPOCHS.length, [3, 1], limit, ask);
  const points = at.flatMap((epochs, i) => {
    const epsilon = values[i];
    return epsilon === undefined || epsilon === Infinity ? [] : [{ epochs, epsilon }];
  });
  const isPart = values.some((one) => one === Infinity);
  if (!points.length) return [points, "No finite epsilon is certified for this run."];
  const end = points.at(-1)?.epochs ?? 1;
  return [points, isPart ? `No finite epsilon is certified beyond ${Number(end.toPrecision(2))} epochs.` : note];
}

/** The line charts: each takes so long at most, but for its first points, below which it would say little. */
export function curves(kernel: Kernel, run: Run, limit = CHART_MS): Curves {
  const { above } = lawsOf(run);
  const [epsilon = Infinity, far = Infinity] = kernel.read(above, EPSILON, [run.delta, leastDelta(run)]).upper;
  const last = Math.min(Math.max(far, 1e-3), 1e4); // beyond it answers take longer, and are not shown
  const [curve, ofCurve] = curveOf(kernel, above, last, { epsilon, delta: run.delta }, limit);
  const [attack, ofAttack] = attackOf(kernel, run, epsilon, curve, limit);
  const [epochs, ofEpochs] = epochsOf(kernel, run, limit);
  return { run, epsilon, curve, attack, epochs, notes: { curve: ofCurve, attack: ofAttack, epochs: ofEpochs } };
}

const MAP_CELLS = 25;
const MAP_STRIDES = [4, 2, 1];
const MAP_MS = 350;
const MAP_LAST_MS = 10_000;

/**
 * Epsilon over batch size and noise: the finest of three lattices that is done in time, then the finest of all that is
 * done in `last` ms.  Undefined after each row, so that a worker can look for a newer question.
 */
export function* grids(kernel: Kernel, run: Run, limit = MAP_MS, last = MAP_LAST_MS): Generator<Grid | undefined> {
  const begin = performance.now();
  const most = Math.min(run.records, 65536);
  const batch = between(Math.max(1, most / 4096), most, MAP_CELLS);
  const noise = between(0.4, 10, MAP_CELLS);
  const known = new Float64Array(MAP_CELLS * MAP_CELLS).fill(NaN);
  const picked = (stride: number, note = ""): Grid => gridOf(run, batch, noise, known, stride, begin, note);
  let done = 0;
  let isShown = false;
  for (const stride of MAP_STRIDES) {
    for (let row = 0; row < MAP_CELLS; row += stride) {
      const took = performance.now() - begin;
      if (done && !isShown && took > limit) {
        isShown = true;
        yield picked(done, ": finer ones follow");
      }
      if (took > last) {
        yield picked(done, done ? ": more would take too long" : "This map would take too long for this run.");
        return;
      }
      fillRow(kernel, { ...run, noise: noise[row] ?? 1 }, row, batch, known, stride);
      yield undefined;
    }
    done = stride;
  }
  yield picked(done);
}

/** The cells of a row that are of a lattice and not known yet. */
function fillRow(kernel: Kernel, run: Run, row: number, batch: number[], known: Float64Array, stride: number): void {
  const at = batch.map((_, i) => i).filter((i) => i % stride === 0 && Number.isNaN(known[row * MAP_CELLS + i]));
  const found = kernel.epsilon(at.map((i) => lawsOf({ ...run, batch: batch[i] ?? 1 }).above), run.delta);
  at.forEach((i, j) => {
    known[row * MAP_CELLS + i] = found.upper[j] ?? Infinity;
  });
}

/** The cells of a lattice; none, where no lattice is done. */
function gridOf(
  run: Run, batch: number[], noise: number[], known: Float64Array, stride: number, begin: number, note: string,
): Grid {
  const every = (_: unknown, i: number): boolean => stride > 0 && i % stride === 0;
  const epsilon = known.filter((_, i) => every(_, i % MAP_CELLS) && every(_, Math.floor(i / MAP_CELLS)));
  return { run, batch: batch.filter(every), noise: noise.filter(every), epsilon, ms: performance.now() - begin, note };
}

/** The noise multiplier for a target. */
export function wanted(kernel: Kernel, run: Run, epsilon: number): Wanted {
  const { above, scale } = lawsOf(run);
  return { run, epsilon, noise: scale * kernel.noise(epsilon, run.delta, above) };
}
