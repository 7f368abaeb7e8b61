// What can be copied, and what is said of an answer.

import type { Answer } from "./answers";
import { above, below, percentAbove } from "./decimal";
import { type Refusal, RELATION_WORDS, type Run, short } from "./run";
import { epochSteps } from "./sampling";

const STATUS = [
  "certified, both ends within 1e-6",
  "certified, but the interval is wide: the Python library may know more",
  "no finite epsilon is certified",
  "a number is out of range",
  "not enough memory",
  "this browser does not round as the proofs need",
];

const APART = "certified; closer bounds are not known for these batches";
const ABOVE = "certified upper bound";

export const statusWords = ({ status, isApart, lower }: Pick<Answer, "status" | "isApart" | "lower">): string =>
  isApart && status === 1 ? (lower > 0 ? APART : ABOVE) : (STATUS[status] ?? "unknown");

const grouped = (x: number): string => x.toLocaleString("en-US", { maximumFractionDigits: 6 });

/** The call that gives this number. */
export function pythonLine(run: Run): string {
  const given = [`noise_multiplier=${run.noise}`];
  if (run.sampling === "full_batch") given.push("sample_rate=1", `steps=${Math.ceil(run.epochs)}`);
  else given.push(`records=${run.records}`, `batch_size=${run.batch}`, `epochs=${run.epochs}`);
  given.push(`delta=${short(run.delta)}`);
  if (run.sampling !== "full_batch" && run.sampling !== "poisson") given.push(`sampling="${run.sampling}"`);
  if (run.relation !== "add_remove") given.push(`neighbors="${run.relation}"`);
  return `import fastacct as fa; print(fa.dpsgd.epsilon(${given.join(", ")}))`;
}

/** How the batches of a run are drawn. */
function batchWords(run: Run): string {
  const records = `${grouped(run.records)} records`;
  switch (run.sampling) {
    case "poisson":
      return `each step samples each of the ${records} independently with probability ${run.batch}/${run.records} ` +
        "(Poisson sampling)";
    case "fixed_size":
      return `each step draws ${grouped(run.batch)} of the ${records} without replacement`;
    case "allocation":
      return `in each epoch each of the ${records} takes part in one of ${grouped(epochSteps(run))} steps, drawn ` +
        "uniformly and independently (random allocation)";
    case "shuffled":
      return `in each epoch the ${records} are cut into batches of ${grouped(run.batch)} in a random order, for ` +
        "which we claim no amplification";
    case "full_batch":
      return `each step takes all ${records}`;
  }
}

/** Epsilon for a text: rounded up, or that there is none. */
export const epsilonText = (upper: number): string =>
  Number.isFinite(upper) ? above(upper) : "∞ (nothing is guaranteed)";

/** A sentence for a paper. */
export function paperSentence({ run, steps, upper, tpr }: Answer): string {
  if (!Number.isFinite(upper)) return "No finite epsilon is certified for this run.";
  return (
    `We train with DP-SGD for ${grouped(run.epochs)} epochs (${grouped(steps)} steps) with noise multiplier ` +
    `${run.noise}; ${batchWords(run)}. This is (${above(upper)}, ${short(run.delta)})-differentially ` +
    `private for ${RELATION_WORDS[run.relation]}, certified by numerical composition (fastacct ${VERSION}). At 1 % ` +
    `false positives no membership-inference attack has a true-positive rate above ${percentAbove(tpr)} %.`
  );
}

/** What of a link is not taken, and why. */
export const refusalText = ({ name, text, allowed }: Refusal): string =>
  `${name} = ${text || "(empty)"} is not taken; allowed: ${allowed}.`;

/** What a screen reader is told once the numbers rest. */
export const spoken = (answer: Answer): string =>
  `Epsilon at most ${epsilonText(answer.upper)}, ${statusWords(answer)}. ` +
  `True-positive rate at most ${percentAbove(answer.tpr)} per cent at 1 per cent false positives.`;

/** The certified interval; without its lower end where that says nothing. */
export const intervalText = ({ lower, upper }: Answer): string =>
  `${lower > 0 ? `${below(lower, 12)} ≤ ` : ""}ε ≤ ${above(upper, 12)}`;
