// Text that wants to deceive is shown as what it is, whole, and stays text.
import { check, inBrowser, opened, same, scene, shoot, WIDTHS } from "./common.mjs";

await inBrowser(async (browser) => {
  for (const [name, { path, values, tool, rationale }] of Object.entries(scene.hostile)) {
    for (const width of WIDTHS) {
      for (const script of [true, false]) {
        const page = await opened(browser, { width, script });
        await page.goto(path);
        const where = `${name} at ${width} px`;
        const shown = await page.locator(".run .values").first().locator(".value").allTextContents();
        same(JSON.stringify(shown), JSON.stringify(values), where);
        const strange = await page.locator(".value *:not(.esc):not(br), blockquote *:not(.esc):not(br)").count();
        same(strange, 0, `${where}: elements within a value`);
        if (rationale) {
          same(await page.locator("blockquote").textContent(), rationale, `${where}: the model's words`);
        }
        const all = await page.locator("body").textContent();
        const deceptive = /[\u0000-\u0008\u000b\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]|[\u{e0000}-\u{e0fff}]/u;
        check(!deceptive.test(all), `${where}: a character that cannot be seen is on the page`);
        if (script) {
          same(await page.evaluate(() => window.hacked), undefined, `${where}: a script of the agent`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
          check(wide <= 0, `${where}: ${wide} px wider than the window`);
          const cut = await page.evaluate(() => [...document.querySelectorAll(".run .value")]
            .filter((value) => getComputedStyle(value).overflow !== "visible" || value.getClientRects().length === 0).length);
          same(cut, 0, `${where}: values that are not shown whole`);
        }
        check(page.complaints.length === 0, `${where}: ${page.complaints.join("\n")}`);
        if (script) { await shoot(page, `hostile-${name}-${width}`); }
        await page.goto("/review");
        check(!deceptive.test(await page.locator("body").textContent()), `the inbox: a character that cannot be seen`);
        await page.context().close();
      }
    }
  }
});
console.log("done");
