// A worker: it answers the latest question of a kind and skips those in between.

import type { Question, Reply } from "./worker";
import workerSource from "virtual:worker";

const url = URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" }));
const QUICK_MS = 80;

export class Client {
  private readonly worker = new Worker(url);
  private readonly asked: number[] = [];
  private readonly next = new Map<string, Question>();
  private took = Infinity;

  constructor(kernels: Uint8Array<ArrayBuffer>, take: (reply: Reply) => void) {
    this.worker.postMessage(kernels);
    this.worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      if (data.kind === "early") return take(data);
      this.took = performance.now() - (this.asked.shift() ?? 0);
      const [question] = this.next.values();
      if (question) this.ask(question);
      take(data);
    };
  }

  /** Maps give way to a newer question by themselves.  Of others one is asked ahead, where answers come quickly. */
  ask(question: Question): void {
    const ahead = this.took < QUICK_MS ? 1 : 0;
    if (this.asked.length > ahead && question.kind !== "grid") {
      this.next.set(question.kind, question);
      return;
    }
    this.next.delete(question.kind);
    if (question.kind !== "grid") this.asked.push(performance.now());
    this.worker.postMessage(question);
  }
}
