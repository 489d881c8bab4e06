// Deciding: by keyboard alone, without the script, twice where it takes two clicks; and never by Enter in a field.
import { check, inBrowser, opened, same, scene, shoot, tabTo } from "./common.mjs";

const state = (page) => page.locator(".head .state").textContent();

await inBrowser(async (browser) => {
  await approves(browser, scene.approve);
  await denies(browser, scene.deny);
  await enterSendsNothing(browser, scene.enter);
  await approvesWithoutScript(browser, scene.plain);
  await confirms(browser, scene.twice);
  await takesAGrant(browser, scene.grant);
  await decidesMany(browser, scene.batch);
  await stops(browser, scene.stop);
});
console.log("done");

async function approves(browser, path) {
  const page = await opened(browser);
  await page.goto(path);
  await page.locator("button.approve:enabled").waitFor();
  await tabTo(page, "button.approve");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => document.querySelector(".head .state")?.textContent === "Approved");
  check((await page.locator("#decision + p").textContent()).startsWith("Approved by ana"), "who approved is said");
  same(await page.locator("button.approve").count(), 0, "buttons to approve again");
}

async function denies(browser, path) {
  const page = await opened(browser, { width: 360 });
  await page.goto(path);
  await tabTo(page, "#deny-message");
  await page.keyboard.type("Not this one: ask <b>support</b>.");
  await tabTo(page, "button.deny:not(.stop)");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".head .state")?.textContent === "Denied");
  same(await page.locator("q.words").textContent(), "Not this one: ask <b>support</b>.", "what the agent is told");
}

async function enterSendsNothing(browser, { one, batch }) {
  for (const script of [true, false]) {
    const page = await opened(browser, { script });
    let sent = 0;
    page.on("request", (request) => { sent += request.method() === "POST" ? 1 : 0; });
    await page.goto(one);
    // Browsers other than this one pass over what is not rendered.
    for (const box of await page.locator(".guard").all()) {
      check((await box.boundingBox()) !== null, "the button that answers to Enter is not rendered");
    }
    await page.locator("summary", { hasText: "Also allow" }).click();
    await page.locator('input[type="radio"][name="grant"]').first().focus();
    await page.keyboard.press("Enter");
    await page.goto(batch);
    await page.locator('input[type="radio"][value="approve"]').first().focus();
    await page.keyboard.press("Space");
    await page.keyboard.press("Enter");
    await page.goto(one);
    same(await state(page), "Waiting", "after Enter in a field");
    same(sent, 0, "forms sent by Enter in a field");
  }
}

async function approvesWithoutScript(browser, path) {
  const page = await opened(browser, { script: false, width: 360 });
  await page.goto(path);
  await page.locator("button.approve").click();
  await page.locator("text=Approved by ana").waitFor();
  same(await state(page), "Approved", "without the script");
  check(page.url().endsWith(path), "a POST leads to the page itself");
}

async function confirms(browser, path) {
  const page = await opened(browser, { script: false });
  await page.goto(path);
  await page.locator("button.approve").click();
  await page.locator("h2", { hasText: "Approve it, really?" }).waitFor();
  same(await state(page), "Waiting", "after the first of two clicks");
  await shoot(page, "second-click");
  await page.locator("button.approve").click();
  await page.locator("text=Approved by ana").waitFor();
}

async function takesAGrant(browser, path) {
  const page = await opened(browser);
  await page.goto(path);
  await page.locator("summary", { hasText: "Also allow" }).click();
  check(await page.locator('input[name="grant"][value=""]').isChecked(), "nothing more is allowed beforehand");
  check(/would have let through \d/.test(await page.locator("fieldset").first().textContent()), "what it would have covered is said");
  await page.locator('input[name="grant"]').nth(1).check();
  await page.locator("button.approve:enabled").click();
  await page.locator("text=Approved by ana").waitFor();
  await page.goto("/review/grants");
  const grant = page.locator("article", { hasText: "issue_refund" }).first();
  check((await grant.textContent()).includes("0 of 10"), "how often it was used");
  await grant.locator("button").click();
  await page.locator("text=No grant is in force").waitFor();
}

async function decidesMany(browser, path) {
  const page = await opened(browser);
  await page.goto(path);
  same(await page.locator("input[type=radio]:checked").count(), 0, "decisions chosen beforehand");
  await page.locator('input[value="approve"]').first().focus();
  await page.keyboard.press("Space");
  await page.locator('input[value="deny"]').last().focus();
  await page.keyboard.press("Space");
  await page.locator("button.send:enabled").waitFor();
  await shoot(page, "batch-chosen");
  await tabTo(page, "button.send");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => document.querySelectorAll("fieldset .state.is-denied").length === 1);
  same(await page.locator("fieldset .state.is-approved").count(), 1, "approved of the batch");
}

async function stops(browser, path) {
  const page = await opened(browser);
  await page.goto(path);
  await page.locator("button.stop").click();
  await page.waitForFunction(() => document.querySelector(".head .state")?.textContent === "Denied");
  await page.goto(scene.stopped);
  same(await page.locator(".head .state").textContent(), "Ended", "the run");
}
