// What the scripts share: the packages, a browser of their own, and checks that say what was wrong.
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.env.NODE_PACKAGES, "package.json"));
const { chromium } = require("playwright-core");
export const axe = require("axe-core").source;

export const scene = JSON.parse(process.env.SCENE);
const shots = process.env.SCREENSHOTS;

export const WIDTHS = [360, 1280];

export function check(holds, what) {
  if (!holds) {
    throw new Error(what);
  }
}

export function same(is, wanted, what) {
  check(is === wanted, `${what}: ${JSON.stringify(is)} instead of ${JSON.stringify(wanted)}`);
}

/// Runs `act` with a browser, and ends it whatever happens.
export async function inBrowser(act) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  try {
    await act(browser);
  } finally {
    await browser.close();
  }
}

/// A page of somebody who is signed in. What the browser complains of is a fault.
export async function opened(browser, { cookie = scene.cookie, width = 1280, script = true, scheme = "light" } = {}) {
  const context = await browser.newContext({
    baseURL: scene.base,
    viewport: { width, height: 900 },
    javaScriptEnabled: script,
    colorScheme: scheme,
    reducedMotion: "reduce",
  });
  if (cookie) {
    await context.addCookies([{ name: "session", value: cookie, url: scene.base, httpOnly: true, sameSite: "Lax" }]);
  }
  const page = await context.newPage();
  page.complaints = [];
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) {
      page.complaints.push(message.text());
    }
  });
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  return page;
}

export async function shoot(page, name) {
  if (shots) {
    mkdirSync(shots, { recursive: true });
    await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
  }
}

/// Presses Tab until what has the focus matches, from the top of the page.
export async function tabTo(page, selector, most = 80) {
  for (let presses = 0; presses < most; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)) {
      return;
    }
  }
  throw new Error(`Tab does not come to ${selector}`);
}
