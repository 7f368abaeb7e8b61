// Uses the page in a real browser and writes what it showed.
//
//   node browser.mjs PAGE CHROMIUM FOLDER          writes FOLDER/seen.json and pictures

import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, executablePath, folder] = process.argv.slice(2);
const ADDRESS = pathToFileURL(file).href;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SWITCHES = (
  "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking " +
  "--disable-component-update --disable-sync"
).split(" ");
const SIZES = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath, args: SWITCHES });
const seen = { complaints: [], requests: [], pages: 0, states: [], maps: [], redraws: [], processor: [] };
Object.assign(seen, { sideways: [], violations: {}, cleared: [], unknown: {}, mapNotes: {} });
const devtools = await browser.newBrowserCDPSession();

async function opened(size, colorScheme, hash = "", hasMap = true) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme, offline: true });
  const page = await context.newPage();
  page.on("console", (one) => /error|warning/.test(one.type()) && seen.complaints.push(one.text()));
  page.on("pageerror", (one) => seen.complaints.push(one.message));
  page.on("request", (one) => seen.requests.push(one.url()));
  seen.pages++;
  await page.goto(ADDRESS + hash);
  if (hasMap) await page.waitForSelector("#chart-map svg circle.here");
  await settled(page);
  return page;
}

/** Waits until the live region has said the latest answer, and the link has it. */
async function settled(page) {
  await page.waitForTimeout(150);
  await page.waitForFunction(() => {
    const shown = document.querySelector("#epsilon").textContent;
    return shown !== "…" && document.querySelector("#tpr").textContent !== "…" &&
      document.querySelector("#live").textContent.includes(shown);
  });
}

async function stateOf(page) {
  const text = (id) => page.textContent(`#${id}`);
  const values = await page.evaluate(() => Object.fromEntries(
    ["noise", "batch", "records", "epochs", "delta"].map((id) => [id, Number(document.getElementById(id).value)])));
  const relation = await page.evaluate(() => document.querySelector("input:checked").id.replace("relation-", ""));
  const sampling = await page.inputValue("#sampling");
  const state = { run: { ...values, relation, sampling }, hash: await page.evaluate(() => location.hash) };
  for (const id of ["epsilon", "tpr", "steps", "python", "paper", "interval", "status"]) state[id] = await text(id);
  return state;
}

const keep = async (page) => seen.states.push(await stateOf(page));

async function press(page, id, key, times) {
  await page.focus(`#${id}`);
  for (let i = 0; i < times; i++) await page.keyboard.press(key);
  await settled(page);
  await keep(page);
}

async function drag(page, id, share) {
  const box = await page.locator(`#${id}`).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  for (let i = 1; i <= 10; i++) await page.mouse.move(box.x + box.width * (0.5 + ((share - 0.5) * i) / 10), box.y + 9);
  await page.mouse.up();
  await settled(page);
  await keep(page);
}

/** Processor time of all of the browser's processes so far, in seconds. */
async function processorTime() {
  const { processInfo } = await devtools.send("SystemInfo.getProcessInfo");
  return processInfo.reduce((sum, one) => sum + one.cpuTime, 0);
}

/** Redraws of all line charts a second while a slider moves, and processor time of one redraw in ms. */
async function redraws(page, id) {
  const begin = await processorTime();
  const [rate, count] = await page.evaluate(async (slider) => {
    const one = document.getElementById(slider);
    const count = () => Number(document.body.dataset.redraws);
    const [first, begin] = [count(), performance.now()];
    for (let i = 0; performance.now() - begin < 1000; i++) {
      one.value = String(100 + (i % 120));
      one.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise(requestAnimationFrame);
    }
    return [(1000 * (count() - first)) / (performance.now() - begin), count() - first];
  }, id);
  seen.redraws.push(rate);
  seen.processor.push((1000 * ((await processorTime()) - begin)) / count);
}

async function violations(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run());
  return found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
}

async function mapTime(page) {
  await page.waitForTimeout(700);
  seen.maps.push(await page.evaluate(() => Number(document.body.dataset.map)));
}

async function use(page) {
  seen.paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  seen.maps.push(await page.evaluate(() => Number(document.body.dataset.map)));
  await keep(page);
  await press(page, "noise-slider", "ArrowRight", 7);
  await press(page, "batch-slider", "PageUp", 1);
  await press(page, "delta-slider", "ArrowLeft", 20);
  await drag(page, "records-slider", 0.6);
  await drag(page, "epochs-slider", 0.3);
  await mapTime(page);
  await page.fill("#noise", "0.87654321");
  await settled(page);
  await keep(page);
  await page.focus("#relation-add_remove");
  await page.keyboard.press("ArrowDown");
  await settled(page);
  await keep(page);
  await page.keyboard.press("ArrowDown");
  await settled(page);
  await keep(page);
  await mapTime(page);
}

/** All samplers in turn, with the first relation that each knows and the last one. */
async function samplers() {
  const page = await opened("desktop", "light", "#noise=0.9&batch=600&records=50000&epochs=12.5&delta=1e-5");
  for (const sampling of ["fixed_size", "allocation", "shuffled", "full_batch", "poisson"]) {
    seen.cleared.push(await page.evaluate((chosen) => { // before an answer can come
      const select = document.getElementById("sampling");
      select.value = chosen;
      select.dispatchEvent(new Event("change", { bubbles: true }));
      return ["epsilon", "tpr", "interval", "paper", "python"].map((id) => document.getElementById(id).textContent)
        .join("") + document.querySelectorAll(".chart svg").length;
    }, sampling));
    await settled(page);
    await keep(page);
    seen.unknown[sampling] = await page.$$eval("input[type=radio]:disabled", (all) => all.map((one) => one.id));
    await page.click("#relation-replace_one", { timeout: 300 }).catch(() => page.click("#relation-zero_out"));
    await settled(page);
    await keep(page);
    seen.mapNotes[sampling] = await page.textContent("#map-note");
  }
  await page.context().close();
}

async function wrong(page) {
  const before = await page.textContent("#epsilon");
  await page.fill("#noise", "99");
  await page.waitForTimeout(200);
  const [invalid, error] = [await page.getAttribute("#noise", "aria-invalid"), await page.textContent("#noise-error")];
  seen.wrong = { invalid, error, changed: (await page.textContent("#epsilon")) !== before };
}

async function target() {
  const page = await opened("desktop", "light");
  await page.fill("#target", "3");
  await page.click("#target-form button");
  await page.waitForFunction(() => document.querySelector("#target-answer").textContent.startsWith("Noise"));
  await settled(page);
  seen.target = { noise: await page.inputValue("#noise"), epsilon: await page.textContent("#epsilon") };
  await keep(page);
  const map = await page.locator("#chart-map svg").boundingBox();
  await page.mouse.click(map.x + map.width * 0.6, map.y + map.height * 0.4);
  await settled(page);
  await keep(page);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]).catch(() => {});
  await page.click("#copy-python");
  await page.waitForFunction(() => /Copied|Selected/.test(document.querySelector("#live").textContent));
  seen.copying = await page.textContent("#python");
  seen.copied = await page.evaluate(() => navigator.clipboard.readText()).catch(() => "");
  seen.selected = await page.evaluate(() => String(getSelection()) === document.getElementById("python").textContent);
  await page.context().close();
  const again = await opened("desktop", "light", "#sampling=shuffled&relation=replace_one", false);
  seen.mapNotes.link = await again.textContent("#map-note");
  await keep(again);
  await again.context().close();
}

/** Links that say what is not allowed: nothing of another run is shown until one says what instead. */
async function refused() {
  const link = "#noise=0.9&batch=600&records=50000&epochs=2.5&delta=1e-13&relation=add_remove&sampling=allocation&q=1";
  const shown = async (page) => {
    const ids = ["epsilon", "tpr", "interval", "steps", "pair-tpr", "python", "paper", "status", "delta-error"];
    const texts = Object.fromEntries(await Promise.all(ids.map(async (id) => [id, await page.textContent(`#${id}`)])));
    const lines = await page.$$eval("#refused:not([hidden]) li", (all) => all.map((one) => one.textContent));
    const charts = await page.locator(".chart svg").count();
    const hash = await page.evaluate(() => location.hash);
    return { ...texts, lines, charts, hash, delta: await page.inputValue("#delta"), use: await page.textContent("#refused-use") };
  };
  seen.refused = { link, places: [] };
  for (const scheme of ["light", "dark"]) {
    for (const size of Object.keys(SIZES)) {
      const context = await browser.newContext({ viewport: SIZES[size], colorScheme: scheme, offline: true });
      const page = await context.newPage();
      page.on("pageerror", (one) => seen.complaints.push(one.message));
      await page.goto(ADDRESS + link);
      await page.waitForTimeout(1000); // longer than an answer takes
      seen.refused.first = await shown(page);
      const { y, height } = await page.locator("#refused").boundingBox();
      seen.refused.places.push(y + height < SIZES[size].height); // seen without scrolling
      await page.screenshot({ path: join(folder, `refused-${size}-${scheme}.png`) });
      seen.violations[scheme] = [...(seen.violations[scheme] ?? []), ...(await violations(page))];
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      if (width > SIZES[size].width) seen.sideways.push(`refused ${size} ${scheme}`);
      await context.close();
    }
  }
  const page = await opened("desktop", "light", "#noise=0.9&batch=600&records=50000&epochs=12&delta=1e-5");
  await page.evaluate((to) => (location.hash = to), "#noise=0.9&delta=1e-13&epochs=3");
  await page.waitForTimeout(1000);
  seen.refused.later = await shown(page);
  await page.fill("#delta", "1e-12");
  await settled(page);
  await keep(page);
  seen.refused.after = await shown(page);
  await page.evaluate((to) => (location.hash = to), link);
  await page.click("#refused-use");
  await settled(page);
  await keep(page);
  await page.focus("a.skip");
  await page.keyboard.press("Enter");
  await page.waitForTimeout(300);
  seen.refused.place = await page.inputValue("#noise");
  await page.context().close();
}

/** A page whose kernels are damaged says so. */
async function broken() {
  const copy = join(folder, "broken.html");
  writeFileSync(copy, readFileSync(file, "utf8").replace(/(id="kernels">.{1000}).{400}/, "$1"));
  const page = await browser.newPage();
  await page.goto(pathToFileURL(copy).href);
  await page.waitForFunction(() => /failed/.test(document.querySelector("#status").textContent));
  seen.broken = await page.textContent("#epsilon");
  await page.close();
}

const page = await opened("desktop", "light");
await use(page);
seen.live = await page.textContent("#live");
const before = await stateOf(page);
const again = await opened("desktop", "light", before.hash);
seen.link = { hash: before.hash, before, after: await stateOf(again) };
await again.context().close();
await wrong(page);
await page.context().close();
await target();
await samplers();
await broken();
await refused();
for (const scheme of ["light", "dark"]) {
  for (const size of Object.keys(SIZES)) {
    const one = await opened(size, scheme);
    await one.screenshot({ path: join(folder, `${size}-${scheme}.png`), fullPage: true });
    const width = await one.evaluate(() => document.documentElement.scrollWidth);
    if (width > SIZES[size].width) seen.sideways.push(`${size} ${scheme}`);
    seen.violations[scheme] = [...(seen.violations[scheme] ?? []), ...(await violations(one))];
    if (scheme === "light" && size === "desktop")
      for (let i = 0; i < 12 && !(i >= 3 && Math.max(...seen.redraws) >= 30); i++) // others may use the machine, too
        await redraws(one, ["noise-slider", "epochs-slider", "batch-slider"][i % 3]);
    await one.context().close();
  }
}
seen.bytes = statSync(file).size;
await browser.close();
writeFileSync(join(folder, "seen.json"), JSON.stringify(seen, null, 1));
