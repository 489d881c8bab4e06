// Every page, at both widths, with and without the script, also in the dark: it is there, it fits, the browser complains of
// nothing, and axe finds no serious fault.
import { axe, check, inBrowser, opened, scene, shoot, WIDTHS } from "./common.mjs";

await inBrowser(async (browser) => {
  for (const [name, { path, status = 200, cookie }] of Object.entries(scene.pages)) {
    for (const width of WIDTHS) {
      for (const script of [true, false]) {
        for (const scheme of script && width === 360 ? ["light", "dark"] : ["light"]) {
          const page = await opened(browser, { width, script, scheme, cookie: cookie ?? scene.cookie });
          const where = `${name} at ${width} px${script ? "" : " without the script"}, ${scheme}`;
          const answer = await page.goto(path);
          check(answer.status() === status, `${where}: status ${answer.status()}`);
          await page.locator("h1").waitFor();
          if (script) {
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
            check(wide <= 0, `${where}: ${wide} px wider than the window`);
            await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
            await page.evaluate(axe);
            const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
            const grave = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
            const told = grave.map(({ id, help, nodes }) =>
              `${id}: ${help}\n  ${nodes.map(({ html, any }) => `${html} ${any.map(({ message }) => message).join("; ")}`).join("\n  ")}`);
            check(told.length === 0, `${where}:\n${told.join("\n")}`);
            await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = false; }));
          }
          check(page.complaints.length === 0, `${where}: ${page.complaints.join("\n")}`);
          await shoot(page, `${name}-${width}-${script ? scheme : "plain"}`);
          await page.context().close();
        }
      }
    }
  }
});
console.log("done");
