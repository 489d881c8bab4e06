// Every page, at both widths, with and without the script, also in the dark: it is there, it fits, the browser complains of
// nothing, and axe finds no serious fault.
import { axe, check, inBrowser, opened, scene, shoot, WIDTHS } from "./common.mjs";

const LOOKS = WIDTHS.flatMap((width) => [
  { width, script: true, scheme: "light" },
  { width, script: false, scheme: "light" },
]).concat([{ width: WIDTHS[0], script: true, scheme: "dark" }]);

async function fits(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 0, `${where}: ${wide} px wider than the window`);
}

async function isAccessible(page, where) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const grave = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = grave.map(({ id, help, nodes }) =>
    `${id}: ${help}\n  ${nodes.map(({ html, any }) => `${html} ${any.map(({ message }) => message).join("; ")}`).join("\n  ")}`);
  check(told.length === 0, `${where}:\n${told.join("\n")}`);
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = false; }));
}

await inBrowser(async (browser) => {
  for (const look of LOOKS) {
    // A window for each person, in which one page follows the other: opening windows takes longer than all the rest.
    const windows = new Map();
    for (const [name, { path, status = 200, cookie = scene.cookie }] of Object.entries(scene.pages)) {
      if (!windows.has(cookie)) {
        windows.set(cookie, await opened(browser, { ...look, cookie }));
      }
      const page = windows.get(cookie);
      const where = `${name} at ${look.width} px${look.script ? "" : " without the script"}, ${look.scheme}`;
      const answer = await page.goto(path);
      check(answer.status() === status, `${where}: status ${answer.status()}`);
      await page.locator("h1").waitFor();
      if (look.script) {
        await fits(page, where);
        await isAccessible(page, where);
      }
      check(page.complaints.length === 0, `${where}: ${page.complaints.join("\n")}`);
      await shoot(page, `${name}-${look.width}-${look.script ? look.scheme : "plain"}`);
    }
    for (const page of windows.values()) {
      await page.context().close();
    }
  }
});
console.log("done");
