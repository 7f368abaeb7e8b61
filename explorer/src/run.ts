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
  noise: 1.117,
  batch: 512,
  records: 50000,
  epochs: 30,
  delta: 1e-6,
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

export const short = (x: number): string => (x < 1e-3 ? x.toExponential() : String(x));

/** What a field may hold, in words. */
export const allowedText = (name: Name, run: Run): string =>
  `${isWhole(name, run) ? "a whole number" : "a number"} from ${short(RANGES[name].min)} to ${short(largest(name, run))}`;

/** The run with what its sampler allows: whole epochs, a relation that is known, a batch within the records. */
export function fitted(run: Run): Run {
  const { isByEpochs, relations } = SAMPLERS[run.sampling];
  const relation = isKnown(run.sampling, run.relation) ? run.relation : (relations[0] ?? "zero_out");
  const epochs = isByEpochs ? Math.ceil(run.epochs) : run.epochs;
  return { ...run, relation, epochs, batch: Math.min(run.batch, run.records) };
}

/** The link's part behind #. */
export const asHash = (run: Run): string =>
  "#" +
  [...NAMES.map((name) => `${name}=${short(run[name])}`), `relation=${run.relation}`, `sampling=${run.sampling}`]
    .join("&");

/** What a link says that is not taken: its name and text, and what is allowed. */
export interface Refusal {
  name: string;
  text: string;
  allowed: string;
}

const KEYS: readonly string[] = [...NAMES, "relation", "sampling"];
const MOST_SHOWN = 40;

/** The run that a link says, and what it says that is not allowed.  Those stay as in the first run, as what is missing. */
export function fromHash(hash: string): { run: Run; refused: Refusal[] } {
  const run: Run = { ...FIRST };
  const refused: Refusal[] = [];
  const said = new URLSearchParams(hash.includes("=") ? hash.replace(/^#/, "") : ""); // else a place on the page
  const refuse = (name: string, text: string, allowed: string): void => {
    refused.push({ name, text: text.slice(0, MOST_SHOWN), allowed });
  };
  const textOf = (name: string): string | undefined => {
    const [text, ...more] = said.getAll(name);
    if (!more.length) return text;
    refuse(name, said.getAll(name).join(" and "), "one value");
    return undefined;
  };
  const chosen = <T extends string>(name: string, known: readonly T[], of: string): T | undefined => {
    const text = textOf(name);
    const found = known.find((one) => one === text);
    if (text !== undefined && !found) refuse(name, text, `${known.join(", ")}${of}`);
    return found;
  };
  for (const name of new Set(said.keys())) {
    if (!KEYS.includes(name)) refuse(name, said.get(name) ?? "", `the names ${KEYS.join(", ")}`);
  }
  run.sampling = chosen("sampling", SAMPLINGS, "") ?? run.sampling;
  run.relation = chosen("relation", SAMPLERS[run.sampling].relations, ` with sampling=${run.sampling}`) ?? run.relation;
  for (const name of ["records", "noise", "batch", "epochs", "delta"] as const) {
    const text = textOf(name);
    if (text === undefined) continue;
    if (text.trim() !== "" && isAllowed(name, Number(text), run)) run[name] = Number(text);
    else refuse(name, text, allowedText(name, run));
  }
  return { run: fitted(run), refused };
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
