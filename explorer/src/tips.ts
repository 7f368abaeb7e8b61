// What a chart says under the pointer: the nearest point that was computed, as text beside it.

import type { Curves, Grid } from "./answers";
import type { Drawn } from "./charts";
import { above, percentAbove } from "./decimal";
import { short } from "./run";

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true"); // the charts are described as a whole
document.body.append(tip);

/** Where the pointer is, on the scales of a chart. */
function placeOf(chart: Drawn, event: MouseEvent): [x: number, y: number] {
  const box = chart.getBoundingClientRect();
  const scale = (Number(chart.getAttribute("width")) || box.width) / box.width;
  const invert = (name: "x" | "y", at: number): number => Number(chart.scale(name)?.invert?.(at * scale));
  return [invert("x", event.clientX - box.left), invert("y", event.clientY - box.top)];
}

/** The index of the nearest value. */
const nearest = (values: readonly number[], x: number): number =>
  values.reduce((best, one, i) => (Math.abs(one - x) < Math.abs((values[best] ?? Infinity) - x) ? i : best), 0);
const nearestLog = (values: readonly number[], x: number): number => nearest(values.map(Math.log), Math.log(x));

const places = (x: number): string => String(Number(x.toPrecision(3)));

export const TEXTS = {
  curve({ curve }: Curves, x: number): string {
    const one = curve[nearest(curve.map((each) => each.epsilon), x)];
    return one ? `ε = ${places(one.epsilon)}: δ ≤ ${above(one.delta, 3)}` : "";
  },
  attack({ attack }: Curves, x: number): string {
    const one = attack[nearestLog(attack.map((each) => each.fpr), x)];
    if (!one) return "";
    const [ours, pair] = [percentAbove(one.tpr), percentAbove(one.pair)];
    return `${places(100 * one.fpr)} % false positives: at most ${ours} % true ones; (ε, δ) alone ${pair} %`;
  },
  epochs({ epochs, run }: Curves, x: number): string {
    const one = epochs[nearestLog(epochs.map((each) => each.epochs), x)];
    return one ? `${places(one.epochs)} epochs: ε ≤ ${above(one.epsilon)} at δ = ${short(run.delta)}` : "";
  },
  map({ batch, noise, epsilon }: Grid, x: number, y: number): string {
    const [i, j] = [nearestLog(batch, 10 ** x), nearestLog(noise, 10 ** y)];
    const bound = above(epsilon[j * batch.length + i] ?? Infinity);
    return `batch ${Math.round(batch[i] ?? 1)}, noise ${places(noise[j] ?? 1)}: ε ≤ ${bound}`;
  },
};

/** Shows what a chart says; `words` has its text at a place, or none. */
export function tipOf(
  place: HTMLElement, chart: () => Drawn | undefined, words: (x: number, y: number) => string,
): void {
  place.addEventListener("pointermove", (event) => {
    const made = chart();
    const [x, y] = made ? placeOf(made, event) : [NaN, NaN];
    const text = Number.isFinite(x) && Number.isFinite(y) ? words(x, y) : "";
    tip.textContent = text;
    tip.hidden = !text;
    const isRight = event.clientX > innerWidth / 2;
    tip.style.left = `${event.clientX + (isRight ? -12 : 12)}px`;
    tip.style.top = `${event.clientY + 14}px`;
    tip.style.transform = isRight ? "translateX(-100%)" : "none";
  });
  for (const end of ["pointerleave", "pointercancel"]) place.addEventListener(end, () => (tip.hidden = true));
}
