// The charts, drawn by Observable Plot; colours are of style.css, so that they follow the theme.

import * as Plot from "@observablehq/plot";
import { type Curves, type Grid, leastDelta, niceEnd } from "./answers";
import { above, percentAbove } from "./decimal";
import { type Run, short } from "./run";

export const LEVELS = [0.5, 1, 2, 3, 4, 8];
const BANDS = ["#00224e", "#26456e", "#575d6d", "#7d7c78", "#a59c74", "#d2c060", "#fee838"]; // cividis
const HALO = { stroke: "var(--paper)", strokeWidth: 5, paintOrder: "stroke", fill: "var(--ink)" } as const;
const FLOOR = 1e-12;

interface Size {
  width: number;
  height: number;
}

const frame = ({ width, height }: Size): Plot.PlotOptions => ({
  width,
  height,
  marginTop: 30,
  marginRight: 16,
  marginBottom: 38,
  marginLeft: 52,
  style: { background: "transparent", fontSize: "12px", overflow: "visible" },
});

const decades = (low: number, high: number, most = 6): number[] => {
  const [from, to] = [Math.round(Math.log10(low)), Math.round(Math.log10(high))];
  const step = Math.max(1, Math.ceil((to - from) / most));
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => 10 ** (from + i * step));
};
const floorDecade = (x: number): number => 10 ** Math.floor(Math.log10(x));
const ceilDecade = (x: number): number => 10 ** Math.ceil(Math.log10(x));

const SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹";
/** 0.01 to 9999 in full, others as a power of 10. */
function tick(x: number): string {
  if (x >= 0.01 && x < 1e4) return String(Number(x.toPrecision(1)));
  const power = Math.round(Math.log10(x));
  const digits = [...String(Math.abs(power))].map((one) => SUPER[Number(one)]).join("");
  return `10${power < 0 ? "⁻" : ""}${digits}`;
}

const logAxis = (label: string, low: number, high: number): Plot.ScaleOptions => ({
  type: "log", domain: [low, high], ticks: decades(low, high), tickFormat: tick, label, labelArrow: "none", clamp: true,
});

export type Drawn = (SVGSVGElement | HTMLElement) & Plot.Plot;

/** A picture with one description: its parts are not described one by one. */
function drawn(description: string, options: Plot.PlotOptions): Drawn {
  const made = Plot.plot(options);
  for (const part of made.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", description);
  return made;
}

/** Delta over epsilon. */
export function drawCurve({ curve, epsilon, run }: Curves, size: Size): Drawn {
  const end = niceEnd(curve.at(-1)?.epsilon ?? 1);
  const low = leastDelta(run);
  const here = { epsilon, delta: run.delta };
  const shown = curve.map((one) => ({ ...one, delta: Math.max(one.delta, low) }));
  const isRight = (epsilon / end) * (size.width - 70) + 160 > size.width - 60;
  return drawn(`Delta over epsilon; delta ${short(run.delta)} at epsilon ${above(epsilon)}`, {
    ...frame(size),
    x: { domain: [0, end], label: "ε", labelArrow: "none", ticks: 5 },
    y: logAxis("δ at most", low, 1),
    grid: true,
    marks: [
      Plot.line(shown, { x: "epsilon", y: "delta", stroke: "var(--run)", strokeWidth: 2.5 }),
      ...(epsilon <= end
        ? [
            Plot.dot([here], { x: "epsilon", y: "delta", r: 5, fill: "var(--run)", stroke: "var(--paper)" }),
            Plot.text([here], {
              x: "epsilon", y: "delta", text: () => `ε ≤ ${above(epsilon)} at δ = ${short(run.delta)}`,
              dx: isRight ? -10 : 10, dy: isRight ? 14 : -10, textAnchor: isRight ? "end" : "start", ...HALO,
            }),
          ]
        : []),
    ],
  });
}

/** The largest true-positive rate over the false-positive rate. */
export function drawAttack({ attack }: Curves, size: Size): Drawn {
  const here = attack.filter((one) => one.fpr === 0.01);
  const last = attack.find((one) => one.fpr >= 0.09);
  const guess = [1e-4, 1].map((x) => ({ fpr: x, tpr: x }));
  const label = { x: "fpr", y: "tpr", ...HALO } as const;
  const ours = attack.find((one) => one.fpr >= 0.2 && one.fpr < 0.9);
  const reached = percentAbove(here[0]?.tpr ?? 1);
  return drawn(`Largest true-positive rate over the false-positive rate; ${reached} per cent at 1 per cent`, {
    ...frame(size),
    x: logAxis("false-positive rate", 1e-4, 1),
    y: logAxis("true-positive rate at most", 1e-4, 1),
    grid: true,
    marks: [
      Plot.line(guess, { x: "fpr", y: "tpr", stroke: "var(--quiet)", strokeDasharray: "1 4" }),
      Plot.line(attack, { x: "fpr", y: "pair", stroke: "var(--pair)", strokeWidth: 2, strokeDasharray: "7 4" }),
      Plot.line(attack, { x: "fpr", y: "tpr", stroke: "var(--run)", strokeWidth: 2.5 }),
      Plot.ruleX(here, { x: "fpr", y1: 1e-4, y2: "tpr", stroke: "var(--quiet)" }),
      Plot.dot(here, { x: "fpr", y: "tpr", r: 5, fill: "var(--run)", stroke: "var(--paper)" }),
      Plot.text([{ fpr: 6e-4, tpr: 6e-4 }], { ...label, text: () => "guessing", textAnchor: "start", dx: 8, dy: 10 }),
      Plot.text(last ? [{ fpr: last.fpr, tpr: last.pair }] : [], {
        ...label, text: () => "(ε, δ) alone", textAnchor: "end", dx: 4, dy: -10,
      }),
      Plot.text(ours ? [ours] : [], {
        ...label, text: () => "this run", textAnchor: "start", dx: 4, dy: 14,
      }),
      Plot.text(here, { ...label, text: (d) => `${percentAbove(d.tpr)} %`, textAnchor: "start", dx: 8, dy: 14 }),
    ],
  });
}

/** Epsilon over epochs. */
export function drawEpochs({ epochs, epsilon, run }: Curves, size: Size): Drawn {
  const shown = epochs.filter((one) => Number.isFinite(one.epsilon) && one.epsilon >= FLOOR);
  const low = floorDecade(Math.min(...shown.map((one) => one.epsilon), 1));
  const high = ceilDecade(Math.max(...shown.map((one) => one.epsilon), low * 10));
  const here = Number.isFinite(epsilon) && epsilon >= low ? [{ epochs: run.epochs, epsilon }] : [];
  const isRight = run.epochs > 60;
  return drawn(`Epsilon over epochs; ${above(epsilon)} at ${run.epochs}`, {
    ...frame(size),
    x: logAxis("epochs", 1, 1000),
    y: logAxis(`ε at most, at δ = ${short(run.delta)}`, low, high),
    grid: true,
    marks: [
      Plot.line(shown, { x: "epochs", y: "epsilon", stroke: "var(--run)", strokeWidth: 2.5 }),
      Plot.dot(here, { x: "epochs", y: "epsilon", r: 5, fill: "var(--run)", stroke: "var(--paper)" }),
      Plot.text(here, {
        x: "epochs", y: "epsilon", text: (d) => `ε ≤ ${above(d.epsilon)}`,
        dx: isRight ? -10 : 10, dy: isRight ? -10 : 14, textAnchor: isRight ? "end" : "start", ...HALO,
      }),
    ],
  });
}

/** Where the line of a level is labelled: its crossing in the first column, from a place on the right, that has one. */
function labelOf({ batch, noise, epsilon }: Grid, level: number): { x: number; y: number; level: number }[] {
  const columns = batch.length;
  for (let i = Math.min(columns - 2, Math.round((0.4 + 0.1 * LEVELS.indexOf(level)) * columns)); i > 1; i--) {
    for (let j = 2; j < noise.length - 1; j++) {
      const [low, high] = [epsilon[(j - 1) * columns + i] ?? 0, epsilon[j * columns + i] ?? 0];
      if (low > level && high <= level) {
        const share = Math.log(low / level) / Math.log(low / Math.max(high, FLOOR));
        const [a, b] = [Math.log10(noise[j - 1] ?? 1), Math.log10(noise[j] ?? 1)];
        return [{ x: Math.log10(batch[i] ?? 1), y: a + share * (b - a), level }];
      }
    }
  }
  return [];
}

const ticksBetween = (low: number, high: number, all: number[]): number[] =>
  all.filter((x) => x >= low * 0.999 && x <= high * 1.001).map(Math.log10);
const BATCHES = Array.from({ length: 11 }, (_, i) => 4 ** i);
const NOISES = [0.4, 0.6, 1, 2, 3, 5, 10];

/** Epsilon over batch size and noise multiplier, with lines of equal epsilon; the run's own place comes later. */
export function drawMap(grid: Grid, size: Size): Drawn {
  const { batch, noise, epsilon } = grid;
  const [left = 1, right = 2] = [batch[0], batch.at(-1)];
  const [low = 0.4, high = 10] = [noise[0], noise.at(-1)];
  const [x1, x2, y1, y2] = [Math.log10(left), Math.log10(right), Math.log10(low), Math.log10(high)];
  const values = Float64Array.from(epsilon, (one) => Math.log(Math.min(Math.max(one, FLOOR), 1e9)));
  const logs = LEVELS.map(Math.log);
  // values are at the centres of their cells
  const half = [(x2 - x1) / (2 * batch.length - 2), (y2 - y1) / (2 * noise.length - 2)] as const;
  const place = {
    width: batch.length, height: noise.length, clip: true,
    x1: x1 - half[0], x2: x2 + half[0], y1: y1 - half[1], y2: y2 + half[1],
  } as const;
  const ticks = (t: number): string => String(Number((10 ** t).toPrecision(5)));
  return drawn(`Epsilon over batch size and noise multiplier, with lines at ${LEVELS.join(", ")}`, {
    ...frame(size),
    x: { domain: [x1, x2], label: "batch size", labelArrow: "none", tickFormat: ticks,
      ticks: ticksBetween(left, right, BATCHES) },
    y: { domain: [y1, y2], label: "noise multiplier", labelArrow: "none", tickFormat: ticks,
      ticks: ticksBetween(low, high, NOISES) },
    color: { type: "threshold", domain: logs, range: BANDS },
    marks: [
      Plot.frame({ fill: BANDS[0], stroke: "none" }),
      Plot.contour(values, { ...place, thresholds: logs, fill: Plot.identity, stroke: "#fff", strokeWidth: 1.2 }),
      Plot.text(LEVELS.flatMap((level) => labelOf(grid, level)), {
        x: "x", y: "y", text: (d) => `${size.width < 420 ? "" : "ε="}${d.level}`,
        fill: "#fff", stroke: "#1b1f24", strokeWidth: 3,
      }),
    ],
  });
}

/** The run's own place on a map, moved without drawing the map anew. */
export function placeRun(map: Drawn, run: Run): void {
  const [x, y] = [map.scale("x"), map.scale("y")];
  const svg = map instanceof SVGSVGElement ? map : map.querySelector("svg");
  if (!x || !y || !svg) return;
  const inside = ([a, b]: number[], value: number): boolean => value >= (a ?? 0) - 1e-9 && value <= (b ?? 0) + 1e-9;
  const [batch, noise] = [Math.log10(run.batch), Math.log10(run.noise)];
  const seen = inside(x.domain as number[], batch) && inside(y.domain as number[], noise);
  for (const kind of ["edge", "here"]) {
    const old = svg.querySelector(`circle.${kind}`);
    const dot = old ?? document.createElementNS("http://www.w3.org/2000/svg", "circle");
    const visibility = seen ? "visible" : "hidden";
    const given = { class: kind, r: 7, cx: x.apply(batch), cy: y.apply(noise), visibility };
    for (const [name, value] of Object.entries(given)) dot.setAttribute(name, String(value));
    if (!old) svg.append(dot);
  }
}

/** The run at a point of a map. */
export function runAt(map: Drawn, event: MouseEvent, run: Run): Run | undefined {
  const box = map.getBoundingClientRect();
  const [x, y] = [map.scale("x"), map.scale("y")];
  const width = Number(map.getAttribute("width")) || box.width;
  const scale = width / box.width;
  const batch = 10 ** Number(x?.invert?.((event.clientX - box.left) * scale));
  const noise = 10 ** Number(y?.invert?.((event.clientY - box.top) * scale));
  if (!(batch >= 1) || !(noise > 0)) return undefined;
  return {
    ...run,
    batch: Math.min(run.records, Math.max(1, Math.round(batch))),
    noise: Math.min(10, Math.max(0.4, Number(noise.toPrecision(3)))),
  };
}
