// The page: fields and sliders, the latest answer, charts that follow.

import type { Answer, Curves, Grid, Wanted } from "./answers";
import { drawAttack, drawCurve, drawEpochs, drawMap, placeRun, runAt } from "./charts";
import { Client } from "./client";
import { above, percentAbove } from "./decimal";
import {
  allowedText, asHash, atPosition, FIRST, fitted, fromHash, isAllowed, largest, NAMES, type Name, positionOf, RANGES,
  type Refusal, RELATIONS, type Run, short,
} from "./run";
import { isKnown, SAMPLERS, SAMPLINGS, type Sampling } from "./sampling";
import { TEXTS, tipOf } from "./tips";
import { intervalText, paperSentence, pythonLine, refusalText, spoken, statusWords } from "./words";
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

let run: Run = FIRST;
/** What the link says and was not taken: as long as there is any, nothing is computed. */
let refused: Refusal[] = [];
let isStopped = false;
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
  if (isStopped) return; // of a link before
  if (reply.kind === "wanted") return takeNoise(reply.found);
  if (reply.kind === "failed") return showFailure(reply.found);
  if (reply.found.run.sampling !== run.sampling || reply.found.run.relation !== run.relation) return;
  if (reply.kind === "early") return showAnswer(reply.found);
  latest = { ...latest, [reply.kind]: reply.found };
  if (reply.kind === "answer") showAnswer(reply.found);
  if (reply.kind === "grid") {
    showMapWords(reply.found);
    element("chart-map").hidden = !reply.found.batch.length;
    const of = asHash(reply.found.run);
    if (of !== mapped) document.body.dataset.map = String(Math.round(reply.found.ms)); // of the first that was drawn
    mapped = of;
    map = undefined;
  }
  draw();
}

function showMapWords({ batch, ms, note }: Grid): void {
  const time = `Computed in ${Math.round(ms)} ms at ${batch.length} by ${batch.length} points${note}.`;
  const about = `Lines are of equal epsilon. The circle is this run; a click moves it. ${time}`;
  say("map-note", batch.length ? about : note);
}

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
  say("status", statusWords(answer));
  element("status").dataset.status = String(status);
  say("steps", steps.toLocaleString("en-US"));
  const isEarly = Number.isNaN(tpr);
  say("tpr", isEarly ? "…" : `${percentAbove(tpr)} %`);
  say("pair-tpr", `${percentAbove(pairTpr)} %`);
  say("python", pythonLine(of));
  say("paper", isEarly ? "…" : paperSentence(answer));
  clearTimeout(resting);
  if (isEarly) return;
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
      lines = { curve: drawCurve(curves, size), attack: drawAttack(curves, size), epochs: drawEpochs(curves, size) };
      for (const [name, chart] of Object.entries(lines)) element(`chart-${name}`).replaceChildren(chart);
      for (const [name, note] of Object.entries(curves.notes)) say(`note-${name}`, note);
      document.body.dataset.redraws = String(Number(document.body.dataset.redraws ?? 0) + 1);
      latest.curves = undefined;
      kept = curves;
    }
    if (grid?.batch.length && !map) {
      map = drawMap(grid, size);
      element("chart-map").replaceChildren(map);
    }
    if (map) placeRun(map, run);
  });
}
let kept: Curves | undefined;
let lines: Partial<Record<"curve" | "attack" | "epochs", ReturnType<typeof drawMap>>> = {};

function showFields(but?: string): void {
  for (const name of NAMES) {
    const [number, slider] = [input(name), input(`${name}-slider`)];
    const ofLink = refused.find((one) => one.name === name);
    if (but !== name) {
      number.value = ofLink?.text ?? short(run[name]);
      mark(name, !ofLink);
    }
    number.max = String(largest(name, run));
    if (but !== `${name}-slider`) slider.value = String(Math.round(SLIDER * positionOf(name, run[name], run)));
    slider.setAttribute("aria-valuetext", short(run[name]));
  }
  for (const relation of RELATIONS) {
    input(`relation-${relation}`).checked = run.relation === relation;
    input(`relation-${relation}`).disabled = !isKnown(run.sampling, relation);
  }
  element<HTMLSelectElement>("sampling").value = run.sampling;
  say("sampling-about", SAMPLERS[run.sampling].about);
  for (const id of ["batch", "batch-slider"]) input(id).disabled = run.sampling === "full_batch";
}

/** Nothing that was said of another sampler or relation stays. */
function clear(): void {
  for (const id of ["epsilon", "tpr", "interval", "steps", "pair-tpr", "python", "paper"]) say(id, "…");
  say("status", "computing");
  for (const name of ["curve", "attack", "epochs"]) {
    element(`chart-${name}`).replaceChildren();
    say(`note-${name}`, "Computing …");
  }
  const { hasBatch } = SAMPLERS[run.sampling];
  element("chart-map").replaceChildren();
  element("chart-map").hidden = !hasBatch;
  say("map-note", hasBatch ? "Computing …" : "Epsilon does not depend on the batch size here: there is no map.");
  latest = {};
  kept = map = undefined;
  lines = {};
}

function mark(name: Name, isGood: boolean): void {
  input(name).setAttribute("aria-invalid", String(!isGood));
  const allowed = allowedText(name, run);
  say(`${name}-error`, isGood ? "" : `${allowed.charAt(0).toUpperCase()}${allowed.slice(1)}.`);
}

/** Says what of the link was not taken; no answer to anything else is shown. */
function showRefused(): void {
  element("refused").hidden = !refused.length;
  element("refused-list").replaceChildren(...refused.map((one) => {
    const line = document.createElement("li");
    line.textContent = refusalText(one);
    return line;
  }));
  if (!refused.length) return;
  clearTimeout(resting); // which would put a run that was shown before into the link
  clear();
  const instead = refused.flatMap(({ name }) => {
    const value = Object.entries(run).find(([one]) => one === name)?.[1];
    return value === undefined ? [] : [`${name} = ${typeof value === "number" ? short(value) : value}`];
  });
  say("refused-use", instead.length ? `Compute with ${instead.join(", ")}` : "Compute without it");
  for (const id of ["epsilon", "epsilon-delta", "tpr", "interval", "steps", "pair-tpr", "python", "paper"]) say(id, "–");
  say("status", "not computed: the link has values that are not allowed");
  element("status").dataset.status = "";
  for (const id of ["note-curve", "note-attack", "note-epochs", "map-note"]) say(id, "Not computed.");
}

/** Takes the run of the link, or says what of it is not allowed. */
function follow(): void {
  const found = fromHash(location.hash);
  refused = found.refused;
  move(found.run);
}

/** What is given here takes the place of what the link says. */
function change(given: Partial<Run>, but?: string): void {
  refused = refused.filter((one) => !(one.name in given));
  move({ ...run, ...given }, but);
}

function move(to: Run, but?: string): void {
  const [before, wasStopped] = [run, isStopped];
  run = fitted(to);
  isStopped = refused.length > 0;
  showFields(but);
  showRefused();
  if (isStopped) return;
  if (wasStopped || run.sampling !== before.sampling || run.relation !== before.relation) clear();
  const question = { run, epsilon: 0 };
  clients.answer.ask({ kind: "answer", ...question });
  clients.curves.ask({ kind: "curves", ...question });
  const moved = (["records", "epochs", "delta"] as const).some((name) => before[name] !== run[name]);
  if (SAMPLERS[run.sampling].hasBatch && (moved || !latest.grid)) {
    clearTimeout(mapping);
    mapping = setTimeout(() => clients.grid.ask({ kind: "grid", run, epsilon: 0 }), latest.grid ? MAP_REST_MS : 0);
  }
  if (map) placeRun(map, run);
}

function takeNoise({ run: of, epsilon, noise }: Wanted): void {
  const { min, max } = RANGES.noise;
  const isOfThis = asHash({ ...of, noise: run.noise }) === asHash(run);
  if (!isOfThis) return say("target-answer", "The run has changed: ask again.");
  if (!(noise <= max)) {
    say("target-answer", `No noise multiplier up to ${max} is certified to give epsilon ${epsilon}.`);
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
  const select = element<HTMLSelectElement>("sampling");
  select.append(...SAMPLINGS.map((one) => new Option(SAMPLERS[one].label, one)));
  select.addEventListener("change", () => change({ sampling: select.value as Sampling }));
  element("target-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const epsilon = Number(input("target").value);
    if (epsilon > 0) {
      say("target-answer", "Searching …");
      clients.answer.ask({ kind: "wanted", run, epsilon });
    }
    else say("target-answer", "Give an epsilon above 0.");
  });
  for (const id of ["python", "paper"]) {
    element(`copy-${id}`).addEventListener("click", () => void copy(id));
  }
  element("chart-map").addEventListener("click", (event) => {
    const there = map && runAt(map, event, run);
    if (there) change(there);
  });
  for (const name of ["curve", "attack", "epochs"] as const) {
    tipOf(element(`chart-${name}`), () => lines[name], (x) => (kept ? TEXTS[name](kept, x) : ""));
  }
  tipOf(element("chart-map"), () => map, (x, y) => (latest.grid ? TEXTS.map(latest.grid, x, y) : ""));
  element("refused-use").addEventListener("click", () => {
    refused = [];
    move(run);
  });
  addEventListener("hashchange", () => {
    if (location.hash.includes("=") || !location.hash) follow(); // else a place on the page
  });
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
clear();
follow();
