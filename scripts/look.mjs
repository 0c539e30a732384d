// Opens pages in a headless Chromium at 1400, 800 and 400 pixels, light and dark, and as printed: writes pictures of them,
// runs axe-core (a checker of accessible pages) on each, and looks for what is wider than the page. `make look` runs it.
//
//   node scripts/look.mjs OUT PAGE.html ..      needs `chromium` in PATH, and axe-core: npm install --prefix OUT axe-core
//
// It talks to the browser through a pipe (Chrome DevTools Protocol), so that no other package is needed. The exit code is 1
// if axe-core finds a serious fault, or a page is wider than the window.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const WIDTHS = [1400, 800, 400];
const SCHEMES = ["light", "dark"];
// Faults that fail the check; axe-core's other impacts are minor and moderate.
const SERIOUS = ["serious", "critical"];

const [out, ...pages] = process.argv.slice(2);
if (!out || !pages.length) {
  console.error("error: give a directory and pages\nhint: node scripts/look.mjs build/look report.html");
  process.exit(2);
}
const library = join(out, "node_modules", "axe-core", "axe.min.js");
if (!existsSync(library)) {
  console.error(`error: ${library}: no such file\nhint: npm install --no-save --prefix ${out} axe-core@4`);
  process.exit(2);
}
const axe = readFileSync(library, "utf8");

const profile = mkdtempSync(join(tmpdir(), "look-"));
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
flags.push("--disable-component-update", "--disable-sync", `--user-data-dir=${profile}`, "--remote-debugging-pipe");
const browser = spawn("chromium", [...flags, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
browser.on("error", () => {
  console.error("error: chromium cannot be started\nhint: apt-get install chromium (Debian, Ubuntu)");
  process.exit(2);
});

// Messages are JSON, each ended by a zero byte.
const waiting = new Map();
const heard = new Map();
let number = 0;
let rest = "";
browser.stdio[4].on("data", (data) => {
  const parts = (rest + data).split("\0");
  rest = parts.pop();
  for (const message of parts.map((part) => JSON.parse(part))) {
    if (message.id) {
      const { resolve, reject } = waiting.get(message.id);
      waiting.delete(message.id);
      message.error ? reject(new Error(message.error.message)) : resolve(message.result);
    } else {
      heard.get(message.method)?.();
    }
  }
});

function ask(method, params = {}, sessionId = undefined) {
  number += 1;
  browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
  return new Promise((resolve, reject) => waiting.set(number, { resolve, reject }));
}

const { targetId } = await ask("Target.createTarget", { url: "about:blank" });
const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
const tell = (method, params) => ask(method, params, sessionId);
const evaluate = async (expression) => {
  const found = await tell("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
  if (found.exceptionDetails) throw new Error(found.exceptionDetails.text);
  return found.result.value;
};
await tell("Page.enable");

async function open(page, width, features, media = "") {
  await tell("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
  await tell("Emulation.setEmulatedMedia", { media, features });
  const loaded = new Promise((done) => heard.set("Page.loadEventFired", done));
  await tell("Page.navigate", { url: pathToFileURL(resolve(page)).href });
  await loaded;
}

// A picture of the window; `whole`: of the whole page.
async function picture(name) {
  const shot = await tell("Page.captureScreenshot", { format: "png" });
  writeFileSync(join(out, `${name}.png`), Buffer.from(shot.data, "base64"));
}

async function whole(name) {
  const height = await evaluate("document.documentElement.scrollHeight");
  const clip = { x: 0, y: 0, width: await evaluate("innerWidth"), height, scale: 1 };
  const shot = await tell("Page.captureScreenshot", { captureBeyondViewport: true, format: "png", clip });
  writeFileSync(join(out, `${name}-whole.png`), Buffer.from(shot.data, "base64"));
}

let failed = false;
console.log("| page | width | scheme | serious faults | other faults | wider than the window |");
console.log("|---|---|---|---|---|---|");
for (const page of pages) {
  const name = page.replace(/\.html$/, "").replace(/[^\w.-]+/g, "-");
  for (const width of WIDTHS) {
    for (const scheme of SCHEMES) {
      await open(page, width, [{ name: "prefers-color-scheme", value: scheme }]);
      await picture(`${name}-${width}-${scheme}`);
      // Closed parts are opened: a checker does not look into them, nor does the picture of the whole page show them.
      await evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))");
      await whole(`${name}-${width}-${scheme}`);
      await evaluate(axe);
      const found = JSON.parse(await evaluate("axe.run().then((r) => JSON.stringify(r.violations))"));
      const serious = found.filter((fault) => SERIOUS.includes(fault.impact));
      const wide = (await evaluate("document.documentElement.scrollWidth")) > width;
      failed ||= wide || serious.length > 0;
      const row = [name, width, scheme, serious.length, found.length - serious.length, wide ? "yes" : "no"];
      console.log(`| ${row.join(" | ")} |`);
      for (const fault of found) {
        console.error(`${fault.impact}: ${fault.id}: ${fault.help}; ${fault.nodes.length} times, first ${fault.nodes[0].html}`);
      }
    }
  }
  await open(page, 1000, [], "print");
  await evaluate("dispatchEvent(new Event('beforeprint'))");
  await whole(`${name}-print`);
}
await ask("Browser.close").catch(() => {});
await new Promise((done) => browser.once("exit", done));
rmSync(profile, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
