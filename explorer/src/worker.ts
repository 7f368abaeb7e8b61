// A worker: the kernels come first, then questions, each answered with its kind.

import { type Answer, answers, curves, type Curves, type Grid, grids, wanted, type Wanted } from "./answers";
import { Kernel } from "./kernel";
import type { Run } from "./run";

export type Question = { kind: "answer" | "curves" | "grid" | "wanted"; run: Run; epsilon: number };
export type Reply =
  | { kind: "answer" | "early"; found: Answer }
  | { kind: "curves"; found: Curves }
  | { kind: "grid"; found: Grid }
  | { kind: "wanted"; found: Wanted }
  | { kind: "failed"; found: string };

async function unpacked(packed: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

const SLICE_MS = 50;
let binary: Promise<ArrayBuffer> | undefined;
let kernel: Promise<Kernel> | undefined;
let newest: Question | undefined;

/** Maps of a run, a slice of time each, until there is a newer question. */
async function answerGrids(given: Kernel, question: Question): Promise<void> {
  let begin = performance.now();
  for (const found of grids(given, question.run)) {
    if (found) self.postMessage({ kind: "grid", found } satisfies Reply);
    if (performance.now() - begin < SLICE_MS) continue;
    await new Promise((next) => setTimeout(next));
    if (newest !== question) return;
    begin = performance.now();
  }
}

function reply(given: Kernel, { kind, run, epsilon }: Question): Reply {
  if (kind === "answer") {
    for (const found of answers(given, run)) {
      if (!Number.isNaN(found.tpr)) return { kind, found };
      self.postMessage({ kind: "early", found } satisfies Reply);
    }
  }
  if (kind === "wanted") return { kind, found: wanted(given, run, epsilon) };
  return { kind: "curves", found: curves(given, run) };
}

self.onmessage = async ({ data }: MessageEvent<Uint8Array<ArrayBuffer> | Question>) => {
  if (data instanceof Uint8Array) {
    binary = unpacked(data);
    return;
  }
  newest = data;
  if (!binary) return;
  try {
    kernel ??= binary.then((one) => Kernel.of(one));
    if (data.kind === "grid") await answerGrids(await kernel, data);
    else self.postMessage(reply(await kernel, data));
  } catch (error) {
    kernel = undefined; // what is left of it may be wrong
    self.postMessage({ kind: "failed", found: String(error) } satisfies Reply);
  }
};
