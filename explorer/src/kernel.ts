// The C kernels, compiled to WebAssembly; wasm/explorer.c says what each function gives.

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  explorer_alloc(size: number): number;
  explorer_read(
    noise: number, rate: number, steps: number, relation: number, quantity: number, n: number,
    target: number, lower: number, upper: number, status: number,
  ): number;
  explorer_epsilon(
    n: number, noise: number, rate: number, steps: number, delta: number, relation: number,
    lower: number, upper: number, status: number,
  ): number;
  explorer_tpr(
    noise: number, rate: number, steps: number, relation: number, n: number, fpr: number, tpr: number,
  ): number;
  explorer_pair_tpr(epsilon: number, delta: number, n: number, fpr: number, tpr: number): void;
  explorer_noise(epsilon: number, delta: number, rate: number, steps: number, relation: number): number;
}

export const EPSILON = 0;
export const LOG_DELTA = 2;

export interface Bounds {
  lower: Float64Array;
  upper: Float64Array;
  status: Uint8Array;
}

/** Noise multiplier, rate, steps, and a relation as the kernels number it. */
export type Steps = readonly [noise: number, rate: number, steps: number, relation: number];

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
  read([noise, rate, steps, relation]: Steps, quantity: number, target: ArrayLike<number>): Bounds {
    const n = target.length;
    this.put(0, target);
    this.wasm.explorer_read(noise, rate, steps, relation, quantity, n, this.at(0), this.at(1), this.at(2), this.at(3));
    return this.bounds(1, n);
  }

  /** Epsilon, cell by cell. */
  epsilon(
    noise: ArrayLike<number>, rate: ArrayLike<number>, steps: ArrayLike<number>, delta: ArrayLike<number>,
    relation: number,
  ): Bounds {
    const n = noise.length;
    const [a, b, c, d] = [this.put(0, noise), this.put(1, rate), this.put(2, steps), this.put(3, delta)];
    this.wasm.explorer_epsilon(n, a, b, c, d, relation, this.at(4), this.at(5), this.at(6));
    return this.bounds(4, n);
  }

  /** The largest true-positive rates of any attack. */
  tpr([noise, rate, steps, relation]: Steps, fpr: ArrayLike<number>): Float64Array {
    this.put(0, fpr);
    this.wasm.explorer_tpr(noise, rate, steps, relation, fpr.length, this.at(0), this.at(1));
    return this.take(1, fpr.length);
  }

  /** The same, of all that one (epsilon, delta) allows. */
  pairTpr(epsilon: number, delta: number, fpr: ArrayLike<number>): Float64Array {
    this.put(0, fpr);
    this.wasm.explorer_pair_tpr(epsilon, delta, fpr.length, this.at(0), this.at(1));
    return this.take(1, fpr.length);
  }

  /** The smallest noise multiplier that is certified to meet a target; infinite where none is. */
  noise(epsilon: number, delta: number, rate: number, steps: number, relation: number): number {
    return this.wasm.explorer_noise(epsilon, delta, rate, steps, relation);
  }
}
