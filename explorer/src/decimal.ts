// Exact decimals: numbers as their digits say, and digits on the safe side of a number.

/** digits * 10^power */
export interface Decimal {
  digits: bigint;
  power: number;
}

/** The number that a decimal text says, exactly. */
export function parsed(text: string): Decimal {
  const match = /^(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i.exec(text.trim());
  if (!match || !(match[1] || match[2])) throw new RangeError(`not a number: ${text}`);
  const after = match[2] ?? "";
  return { digits: BigInt((match[1] ?? "") + after), power: Number(match[3] ?? 0) - after.length };
}

/** What the shortest digits of a number say, as Python's repr does. */
export const asWritten = (x: number): Decimal => parsed(String(x));

/** x = n * 2^power, exactly; x finite and not negative. */
function dyadic(x: number): { n: bigint; power: number } {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const fraction = bits & 0xfffffffffffffn;
  return exponent ? { n: fraction | (1n << 52n), power: exponent - 1075 } : { n: fraction, power: -1074 };
}

const times = (n: bigint, base: bigint, power: number): bigint => (power > 0 ? n * base ** BigInt(power) : n);

/** The sign of decimal - x. */
export function compared(decimal: Decimal, x: number): number {
  const { n, power } = dyadic(x);
  const left = times(times(decimal.digits, 10n, decimal.power), 2n, -power);
  const right = times(times(n, 2n, power), 10n, -decimal.power);
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The smallest whole number that is not below a * b / c. */
export function ceilingOf(a: Decimal, b: Decimal, c: Decimal): bigint {
  const power = a.power + b.power - c.power;
  const top = times(a.digits * b.digits, 10n, power);
  const bottom = times(c.digits, 10n, -power);
  return (top + bottom - 1n) / bottom;
}

/** a / b in floating point, never below the exact quotient. */
export function quotientAbove(a: number, b: number): number {
  const rate = a / b;
  const [r, x, y] = [dyadic(rate), dyadic(a), dyadic(b)];
  const low = Math.min(r.power + y.power, x.power);
  const product = r.n * y.n * 2n ** BigInt(r.power + y.power - low);
  return product < x.n * 2n ** BigInt(x.power - low) ? nextAbove(rate) : rate;
}

function nextAbove(x: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  view.setBigUint64(0, view.getBigUint64(0) + 1n);
  return view.getFloat64(0);
}

function written(digits: bigint, power: number): string {
  const text = digits.toString();
  const first = text.length + power;
  if (first > 9 || first < -3) {
    const rest = text.slice(1).replace(/0+$/, "");
    return `${text[0]}${rest && `.${rest}`}e${first - 1}`;
  }
  if (power >= 0) return text + "0".repeat(power);
  if (first > 0) return `${text.slice(0, first)}.${text.slice(first)}`;
  return `0.${"0".repeat(-first)}${text}`;
}

function rounded(x: number, places: number, side: 1 | -1): string {
  if (x === 0) return "0";
  if (!Number.isFinite(x)) return "∞";
  const near = parsed(x.toExponential(places - 1));
  if (compared(near, x) * side < 0) near.digits += BigInt(side);
  return written(near.digits, near.power);
}

/** So many significant digits, never below the number. */
export const above = (x: number, places = 5): string => rounded(x, places, 1);

/** So many significant digits, never above the number. */
export const below = (x: number, places = 5): string => rounded(x, places, -1);

/** A share in per cent, never below it. */
export function percentAbove(share: number, places = 3): string {
  if (share >= 1) return "100";
  const near = parsed(above(share, places));
  return written(near.digits, near.power + 2);
}
