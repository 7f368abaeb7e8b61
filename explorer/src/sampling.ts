// How batches are drawn: which relations are known, how many steps a run has, and the laws that bound its losses.

import { asWritten, ceilingOf, quotientAbove } from "./decimal";
import type { Opposed, Steps } from "./kernel";
import type { Relation, Run } from "./run";

export const SAMPLINGS = ["poisson", "fixed_size", "allocation", "shuffled", "full_batch"] as const;
export type Sampling = (typeof SAMPLINGS)[number];

interface Sampler {
  label: string;
  relations: readonly Relation[];
  /** Whether a run is whole epochs, and epsilon depends on the batch size. */
  isByEpochs: boolean;
  hasBatch: boolean;
  /** What is assumed of batches, what is proved, and why a relation is missing. */
  about: string;
}

const ALL = ["add_remove", "zero_out", "replace_one"] as const;

export const SAMPLERS: Record<Sampling, Sampler> = {
  poisson: {
    label: "Poisson samples", relations: ALL, isByEpochs: false, hasBatch: true,
    about: "Each step takes each record independently with probability batch size / records.",
  },
  fixed_size: {
    label: "Fixed size, fresh draws", relations: ALL, isByEpochs: false, hasBatch: true,
    about:
      "Each step draws the batch without replacement; both numbers are public. A record takes the place of another " +
      "one, which moves the sum twice as far. Exact where a record is added or removed, else an interval.",
  },
  allocation: {
    label: "Random allocation", relations: ["add_remove", "zero_out"], isByEpochs: true, hasBatch: true,
    about:
      "Each record takes part in one step of each epoch, drawn at random by itself: floor(records / batch size) " +
      "steps, and sizes of batches vary. Not known where a record is replaced.",
  },
  shuffled: {
    label: "Shuffled in each epoch", relations: ["zero_out", "replace_one"], isByEpochs: true, hasBatch: false,
    about:
      "Batches of one random order of all records: an interval. No amplification is proved, so that epsilon at most is " +
      "that of a known step in each epoch. Report the upper end. Sizes are public, so no record is added.",
  },
  full_batch: {
    label: "All records (full batch)", relations: ALL, isByEpochs: true, hasBatch: false,
    about: "Steps are epochs. The same holds for batches that are fixed before the data is seen: one step an epoch.",
  },
};

/** Whether the relation is known for the sampler. */
export const isKnown = (sampling: Sampling, relation: Relation): boolean =>
  SAMPLERS[sampling].relations.includes(relation);

/** ceil(epochs * records / batch), from the decimal digits. */
export const stepsOf = (epochs: number, records: number, batch: number): number =>
  Number(ceilingOf(asWritten(epochs), asWritten(records), asWritten(batch)));

/** batch / records, never below it. */
export const rateOf = (run: Run): number => quotientAbove(run.batch, run.records);

/** Steps of one epoch: of an allocation the last batch is not smaller. */
export function epochSteps({ sampling, records, batch }: Run): number {
  if (sampling === "full_batch") return 1;
  return sampling === "allocation" ? Math.floor(records / batch) : stepsOf(1, records, batch);
}

/** All steps of a run. */
export const allSteps = (run: Run): number =>
  SAMPLERS[run.sampling].isByEpochs
    ? epochSteps(run) * Math.ceil(run.epochs)
    : stepsOf(run.epochs, run.records, run.batch);

/** Laws as the kernels number them; a Poisson sample has the same worst case where a record is zeroed out. */
export const SAMPLED = 0;
export const REPLACED = 3;
export const FIXED_SIZE = 4;
export const ALLOCATED = 5;

export interface Laws {
  above: Steps;
  /** Absent: the law above is exact.  Null: nothing is known from below. */
  below?: Steps | null;
  /** Another one that bounds them from below. */
  opposed?: Opposed;
  /** The run's noise multiplier over that of the law above. */
  scale: number;
}

/** What bounds the losses of a run, as in fastacct/mechanisms/batches.py and epochs.py. */
export function lawsOf(run: Run): Laws {
  const moved = run.relation === "replace_one" ? 2 : 1;
  const { noise } = run;
  if (SAMPLERS[run.sampling].isByEpochs) {
    const [steps, epochs] = [epochSteps(run), Math.ceil(run.epochs)];
    const plain = { above: [noise / moved, 1, epochs, SAMPLED] as const, scale: moved };
    if (steps === 1) return plain;
    if (run.sampling === "allocation") return { above: [noise, steps, epochs, ALLOCATED], scale: 1 };
    const below = [noise / moved, steps, epochs, ALLOCATED] as const; // the other records contribute nothing
    return { ...plain, below, opposed: [noise, steps, epochs, 2 - moved] };
  }
  const [rate, steps] = [rateOf(run), allSteps(run)];
  if (run.sampling === "poisson") return { above: [noise, rate, steps, moved === 2 ? REPLACED : SAMPLED], scale: 1 };
  if (rate === 1) {
    const far = run.relation === "zero_out" ? 1 : 2;
    return { above: [noise / far, 1, steps, SAMPLED], below: null, scale: far };
  }
  if (run.relation === "add_remove") return { above: [noise / 2, rate, steps, SAMPLED], scale: 2 };
  return { above: [noise, rate, steps, FIXED_SIZE], below: [noise / moved, rate, steps, SAMPLED], scale: 1 };
}
