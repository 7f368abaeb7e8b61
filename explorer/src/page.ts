// The page: fields and sliders, the latest answer, charts that follow.

import type { Answer, Curves, Grid } from "./answers";
import { drawAttack, drawCurve, drawEpochs, drawMap, placeRun, runAt } from "./charts";
import { Client } from "./client";
import { above, percentAbove } from "./decimal";
import {
  asHash, atPosition, fromHash, isAllowed, largest, NAMES, type Name, positionOf, RANGES, RELATIONS, type Run, short,
} from "./run";
import { intervalText, paperSentence, pythonLine, spoken, statusWords } from "./words";
import type { Reply } from "./worker";

const SLIDER = 400;
const REST_MS = 400;
const MAP_REST_MS = 60;

function element<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found as T;
}
const input = (id: string): HTMLInputElement => element<HTMLInputElement>(id);
const say = (id: string, text: string): void => {
  const there = element(id);
  if (there.textContent !== text) there.textContent = text;
};

let run: Run = fromHash(location.hash);
let latest: { answer?: Answer; curves?: Curves; grid?: Grid } = {};
let mapped = "";
let map: ReturnType<typeof drawMap> | undefined;
let resting: ReturnType<typeof setTimeout> | undefined;
let mapping: ReturnType<typeof setTimeout> | undefined;
let isDrawing = false;

const packed = Uint8Array.from(atob(element("kernels").textContent ?? ""), (one) => one.charCodeAt(0));
const clients = Object.fromEntries(
  (["answer", "curves", "grid"] as const).map((kind) => [kind, new Client(packed, take)]),
) as Record<"answer" | "curves" | "grid", Client>;

function take(reply: Reply): void {
  if (reply.kind === "wanted") return takeNoise(reply.found.epsilon, reply.found.noise);
  if (reply.kind === "failed") return showFailure(reply.found);
  latest = { ...latest, [reply.kind]: reply.found };
  if (reply.kind === "answer") showAnswer(reply.found);
  if (reply.kind === "grid") {
    say("map-time", mapWords(reply.found));
    const of = asHash(reply.found.run);
    if (of !== mapped) document.body.dataset.map = String(Math.round(reply.found.ms)); // of the first that was drawn
    mapped = of;
    map = undefined;
  }
  draw();
}

const mapWords = ({ batch, ms }: Grid): string => `${Math.round(ms)} ms at ${batch.length} by ${batch.length} points`;

function showFailure(message: string): void {
  say("epsilon", "unknown");
  say("tpr", "unknown");
  say("interval", "unknown");
  say("python", pythonLine(run));
  say("paper", "");
  const text = `the computation failed; a browser with WebAssembly SIMD is needed (${message})`;
  say("status", text);
  say("live", text);
}

function showAnswer(answer: Answer): void {
  const { run: of, upper, status, tpr, pairTpr, steps } = answer;
  say("epsilon", Number.isFinite(upper) ? above(upper) : "∞");
  say("epsilon-delta", short(of.delta));
  say("interval", intervalText(answer));
  say("status", statusWords(status));
  element("status").dataset.status = String(status);
  say("steps", steps.toLocaleString("en-US"));
  say("tpr", `${percentAbove(tpr)} %`);
  say("pair-tpr", `${percentAbove(pairTpr)} %`);
  say("python", pythonLine(of));
  say("paper", paperSentence(answer));
  clearTimeout(resting);
  resting = setTimeout(() => {
    say("live", spoken(answer));
    history.replaceState(null, "", asHash(run));
  }, REST_MS);
}

/** All charts have one size; it is measured once, since a measure in each redraw costs a layout. */
function measured(): { width: number; height: number } {
  const width = Math.max(260, Math.floor(element("chart-curve").clientWidth));
  return { width, height: Math.round(Math.min(340, Math.max(240, width * 0.66))) };
}
let size = measured();

function draw(): void {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    const { curves, grid } = latest;
    if (curves) {
      element("chart-curve").replaceChildren(drawCurve(curves, size));
      element("chart-attack").replaceChildren(drawAttack(curves, size));
      element("chart-epochs").replaceChildren(drawEpochs(curves, size));
      document.body.dataset.redraws = String(Number(document.body.dataset.redraws ?? 0) + 1);
      latest.curves = undefined;
      kept = curves;
    }
    if (grid && !map) {
      map = drawMap(grid, size);
      element("chart-map").replaceChildren(map);
    }
    if (map) placeRun(map, run);
  });
}
let kept: Curves | undefined;

function showFields(but?: string): void {
  for (const name of NAMES) {
    const [number, slider] = [input(name), input(`${name}-slider`)];
    if (but !== name) {
      number.value = short(run[name]);
      mark(name, true);
    }
    number.max = String(largest(name, run));
    if (but !== `${name}-slider`) slider.value = String(Math.round(SLIDER * positionOf(name, run[name], run)));
    slider.setAttribute("aria-valuetext", short(run[name]));
  }
  for (const relation of RELATIONS) input(`relation-${relation}`).checked = run.relation === relation;
}

function mark(name: Name, isGood: boolean): void {
  input(name).setAttribute("aria-invalid", String(!isGood));
  const kind = RANGES[name].whole ? "A whole number" : "A number";
  const allowed = `${kind} from ${short(RANGES[name].min)} to ${short(largest(name, run))}.`;
  say(`${name}-error`, isGood ? "" : allowed);
}

function change(given: Partial<Run>, but?: string): void {
  const before = run;
  run = { ...run, ...given };
  run.batch = Math.min(run.batch, run.records);
  showFields(but);
  const question = { run, epsilon: 0 };
  clients.answer.ask({ kind: "answer", ...question });
  clients.curves.ask({ kind: "curves", ...question });
  const moved = (["records", "epochs", "delta", "relation"] as const).some((name) => before[name] !== run[name]);
  if (moved || !latest.grid) {
    clearTimeout(mapping);
    mapping = setTimeout(() => clients.grid.ask({ kind: "grid", run, epsilon: 0 }), latest.grid ? MAP_REST_MS : 0);
  }
  if (map) placeRun(map, run);
}

function takeNoise(epsilon: number, noise: number): void {
  const { min, max } = RANGES.noise;
  if (!(noise <= max)) {
    say("target-answer", `No noise multiplier up to ${max} gives epsilon ${epsilon}.`);
    return;
  }
  const shown = Math.max(min, Number(above(noise, 6)));
  say("target-answer", `Noise multiplier ${shown}${noise < min ? " (less is enough)" : ""}.`);
  change({ noise: shown });
}

function listen(): void {
  for (const name of NAMES) {
    input(name).addEventListener("input", () => {
      const text = input(name).value;
      const isGood = text !== "" && isAllowed(name, Number(text), run);
      mark(name, isGood);
      if (isGood) change({ [name]: Number(text) }, name);
    });
    input(name).addEventListener("change", () => showFields());
    input(`${name}-slider`).addEventListener("input", () => {
      change({ [name]: atPosition(name, Number(input(`${name}-slider`).value) / SLIDER, run) }, `${name}-slider`);
    });
  }
  for (const relation of RELATIONS) {
    input(`relation-${relation}`).addEventListener("change", () => change({ relation }));
  }
  element("target-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const epsilon = Number(input("target").value);
    if (epsilon > 0) clients.answer.ask({ kind: "wanted", run, epsilon });
    else say("target-answer", "Give an epsilon above 0.");
  });
  for (const id of ["python", "paper"]) {
    element(`copy-${id}`).addEventListener("click", () => void copy(id));
  }
  element("chart-map").addEventListener("click", (event) => {
    const there = map && runAt(map, event, run);
    if (there) change(there);
  });
  addEventListener("hashchange", () => change(fromHash(location.hash)));
  addEventListener("resize", () => {
    size = measured();
    latest.curves ??= kept;
    map = undefined;
    draw();
  });
}

async function copy(id: string): Promise<void> {
  const text = element(id).textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
    say("live", "Copied.");
  } catch {
    getSelection()?.selectAllChildren(element(id));
    say("live", "Selected: copy it with the keyboard.");
  }
}

listen();
change({});
