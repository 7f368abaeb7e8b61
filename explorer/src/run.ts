// A run of DP-SGD: its numbers, their ranges, and the link that holds them.

import { isKnown, SAMPLERS, SAMPLINGS, type Sampling } from "./sampling";

export const NAMES = ["noise", "batch", "records", "epochs", "delta"] as const;
export type Name = (typeof NAMES)[number];
export const RELATIONS = ["add_remove", "zero_out", "replace_one"] as const;
export type Relation = (typeof RELATIONS)[number];

export interface Run extends Record<Name, number> {
  relation: Relation;
  sampling: Sampling;
}

export interface Range {
  min: number;
  max: number;
  whole: boolean;
  places: number;
}

/** What the fields take; sliders are logarithmic and give so many significant digits. */
export const RANGES: Record<Name, Range> = {
  noise: { min: 0.3, max: 20, whole: false, places: 3 },
  batch: { min: 1, max: 1e6, whole: true, places: 3 },
  records: { min: 100, max: 1e7, whole: true, places: 2 },
  epochs: { min: 1, max: 1000, whole: false, places: 2 },
  delta: { min: 1e-12, max: 1e-2, whole: false, places: 1 },
};

export const FIRST: Run = {
  noise: 1.0408,
  batch: 512,
  records: 50000,
  epochs: 30,
  delta: 1e-5,
  relation: "add_remove",
  sampling: "poisson",
};

export const RELATION_WORDS: Record<Relation, string> = {
  add_remove: "adding or removing one record",
  zero_out: "zeroing out one record",
  replace_one: "replacing one record",
};

export const largest = (name: Name, run: Run): number =>
  name === "batch" ? Math.min(RANGES.batch.max, run.records) : RANGES[name].max;

export const isWhole = (name: Name, run: Run): boolean =>
  RANGES[name].whole || (name === "epochs" && SAMPLERS[run.sampling].isByEpochs);

/** Whether a field may hold a number. */
export const isAllowed = (name: Name, value: number, run: Run): boolean =>
  value >= RANGES[name].min && value <= largest(name, run) && (!isWhole(name, run) || Number.isInteger(value));

/** The run with what its sampler allows: whole epochs, a relation that is known, a batch within the records. */
export function fitted(run: Run): Run {
  const { isByEpochs, relations } = SAMPLERS[run.sampling];
  const relation = isKnown(run.sampling, run.relation) ? run.relation : (relations[0] ?? "zero_out");
  const epochs = isByEpochs ? Math.ceil(run.epochs) : run.epochs;
  return { ...run, relation, epochs, batch: Math.min(run.batch, run.records) };
}

export const short = (x: number): string => (x < 1e-3 ? x.toExponential() : String(x));

/** The link's part behind #. */
export const asHash = (run: Run): string =>
  "#" +
  [...NAMES.map((name) => `${name}=${short(run[name])}`), `relation=${run.relation}`, `sampling=${run.sampling}`]
    .join("&");

/** The run that a link says; what is missing or not allowed is taken from the first run. */
export function fromHash(hash: string): Run {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const run: Run = { ...FIRST };
  const relation = RELATIONS.find((one) => one === given.get("relation"));
  if (relation) run.relation = relation;
  const sampling = given.get("sampling");
  run.sampling = SAMPLINGS.find((one) => one === sampling) ?? run.sampling;
  for (const name of ["records", "noise", "batch", "epochs", "delta"] as const) {
    const text = given.get(name);
    if (text && isAllowed(name, Number(text), run)) run[name] = Number(text);
  }
  return fitted(run);
}

/** The number at a slider's position, 0 to 1. */
export function atPosition(name: Name, position: number, run: Run): number {
  const { min, places } = RANGES[name];
  const max = largest(name, run);
  const value = Number((min * (max / min) ** position).toPrecision(places));
  return Math.min(Math.max(isWhole(name, run) ? Math.round(value) : value, min), max);
}

/** The slider's position of a number. */
export function positionOf(name: Name, value: number, run: Run): number {
  const { min } = RANGES[name];
  const max = largest(name, run);
  return max > min ? Math.log(value / min) / Math.log(max / min) : 0;
}
