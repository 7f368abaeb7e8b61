// What can be copied, and what is said of an answer.

import type { Answer } from "./answers";
import { above, below, percentAbove } from "./decimal";
import { RELATION_WORDS, type Run, short } from "./run";

const STATUS = [
  "certified, both ends within 1e-6",
  "certified, but the interval is wide: the Python library may know more",
  "no finite epsilon is certified",
  "a number is out of range",
  "not enough memory",
  "this browser does not round as the proofs need",
];

export const statusWords = (status: number): string => STATUS[status] ?? "unknown";

const grouped = (x: number): string => x.toLocaleString("en-US", { maximumFractionDigits: 6 });

/** The call that gives this number. */
export function pythonLine(run: Run): string {
  const given = [
    `noise_multiplier=${run.noise}`,
    `records=${run.records}`,
    `batch_size=${run.batch}`,
    `epochs=${run.epochs}`,
    `delta=${short(run.delta)}`,
  ];
  if (run.relation !== "add_remove") given.push(`neighbors="${run.relation}"`);
  return `import fastacct as fa; print(fa.dpsgd.epsilon(${given.join(", ")}))`;
}

/** Epsilon for a text: rounded up, or that there is none. */
export const epsilonText = (upper: number): string =>
  Number.isFinite(upper) ? above(upper) : "∞ (nothing is guaranteed)";

/** A sentence for a paper. */
export function paperSentence({ run, steps, upper, tpr }: Answer): string {
  if (!Number.isFinite(upper)) return "No finite epsilon is certified for this run.";
  return (
    `We train with DP-SGD for ${grouped(run.epochs)} epochs (${grouped(steps)} steps) with noise multiplier ` +
    `${run.noise}; each step samples each of the ${grouped(run.records)} records independently with probability ` +
    `${run.batch}/${run.records} (Poisson sampling). This is (${above(upper)}, ${short(run.delta)})-differentially ` +
    `private for ${RELATION_WORDS[run.relation]}, certified by numerical composition (fastacct ${VERSION}). At 1 % ` +
    `false positives no membership-inference attack has a true-positive rate above ${percentAbove(tpr)} %.`
  );
}

/** What a screen reader is told once the numbers rest. */
export const spoken = ({ upper, tpr, status }: Answer): string =>
  `Epsilon at most ${epsilonText(upper)}, ${statusWords(status)}. ` +
  `True-positive rate at most ${percentAbove(tpr)} per cent at 1 per cent false positives.`;

/** The certified interval. */
export const intervalText = ({ lower, upper }: Answer): string => `${below(lower, 12)} ≤ ε ≤ ${above(upper, 12)}`;
