// A worker: the kernels come first, then questions, each answered with its kind.

import { answer, type Answer, curves, type Curves, grid, type Grid, wanted, type Wanted } from "./answers";
import { Kernel } from "./kernel";
import type { Run } from "./run";

export type Question = { kind: "answer" | "curves" | "grid" | "wanted"; run: Run; epsilon: number };
export type Reply =
  | { kind: "answer"; found: Answer }
  | { kind: "curves"; found: Curves }
  | { kind: "grid"; found: Grid }
  | { kind: "wanted"; found: Wanted };

async function unpacked(packed: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

let kernel: Promise<Kernel> | undefined;

function reply(given: Kernel, { kind, run, epsilon }: Question): Reply {
  if (kind === "answer") return { kind, found: answer(given, run) };
  if (kind === "curves") return { kind, found: curves(given, run) };
  if (kind === "grid") return { kind, found: grid(given, run) };
  return { kind, found: wanted(given, run, epsilon) };
}

self.onmessage = async (event: MessageEvent<Uint8Array<ArrayBuffer> | Question>) => {
  const { data } = event;
  if (data instanceof Uint8Array) kernel = unpacked(data).then((binary) => Kernel.of(binary));
  else if (kernel) self.postMessage(reply(await kernel, data));
};
