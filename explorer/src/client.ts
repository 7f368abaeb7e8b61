// A worker: it answers the latest question of a kind and skips those in between.

import type { Question, Reply } from "./worker";
import workerSource from "virtual:worker";

const url = URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" }));

export class Client {
  private readonly worker = new Worker(url);
  private busy = false;
  private readonly next = new Map<string, Question>();

  constructor(kernels: Uint8Array<ArrayBuffer>, take: (reply: Reply) => void) {
    this.worker.postMessage(kernels);
    this.worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      this.busy = false;
      const [question] = this.next.values();
      if (question) this.ask(question);
      take(data);
    };
  }

  /** Maps give way to a newer question by themselves. */
  ask(question: Question): void {
    if (this.busy && question.kind !== "grid") {
      this.next.set(question.kind, question);
      return;
    }
    this.busy = true;
    this.next.delete(question.kind);
    this.worker.postMessage(question);
  }
}
