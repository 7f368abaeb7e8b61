// The C kernels, compiled to WebAssembly; wasm/explorer.c says what each function gives.

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  explorer_alloc(size: number): number;
  explorer_read(
    noise: number, rate: number, steps: number, law: number, quantity: number, n: number,
    target: number, lower: number, upper: number, status: number,
  ): number;
  explorer_epsilon(
    n: number, noise: number, rate: number, steps: number, delta: number, law: number,
    lower: number, upper: number, status: number,
  ): number;
  explorer_tpr(
    noise: number, rate: number, steps: number, law: number, n: number, fpr: number, tpr: number,
  ): number;
  explorer_pair_tpr(epsilon: number, delta: number, n: number, fpr: number, tpr: number): void;
  explorer_shuffled(noise: number, steps: number, epochs: number, mean: number, delta: number): number;
  explorer_noise(epsilon: number, delta: number, rate: number, steps: number, law: number): number;
}

export const EPSILON = 0;
export const LOG_DELTA = 2;

export interface Bounds {
  lower: Float64Array;
  upper: Float64Array;
  status: Uint8Array;
}

/** Noise multiplier, rate, steps, and a law as the kernels number it; of an allocation, the steps of an epoch and how
 * many epochs. */
export type Steps = readonly [noise: number, rate: number, steps: number, law: number];

/** Noise multiplier, steps of an epoch, epochs, and the mean of a record's step where it is zeroed out or replaced. */
export type Opposed = readonly [noise: number, steps: number, epochs: number, mean: number];

const CELLS = 4096;

/** One copy of the kernels, with room for CELLS cells a call. */
export class Kernel {
  private readonly columns: number[];

  private constructor(private readonly wasm: Exports) {
    wasm._initialize();
    this.columns = Array.from({ length: 7 }, () => wasm.explorer_alloc(8 * CELLS));
  }

  static async of(binary: BufferSource): Promise<Kernel> {
    const none = { clock_time_get: () => 0 }; // asked by kernels that have a time limit: none here
    const { instance } = await WebAssembly.instantiate(binary, { wasi_snapshot_preview1: none });
    return new Kernel(instance.exports as unknown as Exports);
  }

  private put(column: number, values: ArrayLike<number>): number {
    const at = this.columns[column] ?? 0;
    new Float64Array(this.wasm.memory.buffer, at, CELLS).set(values);
    return at;
  }

  private at(column: number): number {
    return this.columns[column] ?? 0;
  }

  private take(column: number, n: number): Float64Array {
    return new Float64Array(this.wasm.memory.buffer, this.at(column), n).slice();
  }

  private bounds(lower: number, n: number): Bounds {
    const status = new Uint8Array(this.wasm.memory.buffer, this.at(lower + 2), n).slice();
    return { lower: this.take(lower, n), upper: this.take(lower + 1, n), status };
  }

  /** Epsilon at deltas, or log delta at epsilons, of one run. */
  read([noise, rate, steps, law]: Steps, quantity: number, target: ArrayLike<number>): Bounds {
    const n = target.length;
    this.put(0, target);
    this.wasm.explorer_read(noise, rate, steps, law, quantity, n, this.at(0), this.at(1), this.at(2), this.at(3));
    return this.bounds(1, n);
  }

  /** Epsilon at a delta, cell by cell; those of one law in one call. */
  epsilon(cells: readonly Steps[], delta: number): Bounds {
    const all = { lower: new Float64Array(cells.length), upper: new Float64Array(cells.length) };
    const status = new Uint8Array(cells.length);
    for (const law of new Set(cells.map((one) => one[3]))) {
      const at = cells.map((_, i) => i).filter((i) => cells[i]?.[3] === law);
      for (const j of [0, 1, 2] as const) this.put(j, at.map((i) => cells[i]?.[j] ?? 0));
      this.put(3, at.map(() => delta));
      const [a, b, c, d, low, high, code] = this.columns as [number, number, number, number, number, number, number];
      this.wasm.explorer_epsilon(at.length, a, b, c, d, law, low, high, code);
      const found = this.bounds(4, at.length);
      at.forEach((i, k) => {
        all.lower[i] = found.lower[k] ?? 0;
        all.upper[i] = found.upper[k] ?? Infinity;
        status[i] = found.status[k] ?? 3;
      });
    }
    return { ...all, status };
  }

  /** The largest true-positive rates of any attack. */
  tpr([noise, rate, steps, law]: Steps, fpr: ArrayLike<number>): Float64Array {
    this.put(0, fpr);
    this.wasm.explorer_tpr(noise, rate, steps, law, fpr.length, this.at(0), this.at(1));
    return this.take(1, fpr.length);
  }

  /** The same, of all that one (epsilon, delta) allows. */
  pairTpr(epsilon: number, delta: number, fpr: ArrayLike<number>): Float64Array {
    this.put(0, fpr);
    this.wasm.explorer_pair_tpr(epsilon, delta, fpr.length, this.at(0), this.at(1));
    return this.take(1, fpr.length);
  }

  /** What is sure of epsilon of shuffled batches, where the other records point the other way. */
  shuffled([noise, steps, epochs, mean]: Opposed, delta: number): number {
    return this.wasm.explorer_shuffled(noise, steps, epochs, mean, delta);
  }

  /** The smallest noise multiplier of a law that is certified to meet a target; infinite where none is. */
  noise(epsilon: number, delta: number, [, rate, steps, law]: Steps): number {
    return this.wasm.explorer_noise(epsilon, delta, rate, steps, law);
  }
}
