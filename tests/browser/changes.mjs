// What the script does: it holds the approve back for a moment, and says when something has changed. It never acts.
import { check, inBrowser, opened, same, scene } from "./common.mjs";

await inBrowser(async (browser) => {
  const page = await opened(browser);
  await stopClock(page);
  const sent = [];
  page.on("request", (request) => sent.push(request.method()));
  await page.goto(scene.one);
  const approve = page.locator("button.approve");
  check(await approve.isDisabled(), "the approve can be pressed at once");
  await page.clock.runFor(900);
  check(await approve.isDisabled(), "the approve can be pressed within a second");
  await page.clock.runFor(200);
  check(await approve.isEnabled(), "the approve cannot be pressed after a second");
  const left = page.locator("time[data-left]").first();
  const before = await left.textContent();
  await page.clock.runFor(120 * 1000);
  check((await left.textContent()) !== before, `the time left stays ${before}`);
  check(await page.locator("#news").isHidden() || (await page.locator("#news").textContent()) === "", "news of nothing");

  // Somebody else is faster.
  const other = await opened(browser, { cookie: scene.ben, script: false });
  await other.goto(scene.one);
  await other.locator("button.deny:not(.stop)").click();
  await other.locator("text=Denied by ben").waitFor();
  const asked = page.waitForResponse((answer) => answer.url().endsWith("/mark"));
  await page.clock.runFor(6000);
  await asked;
  await page.locator("#news.shown").waitFor();
  check((await page.locator("#news").textContent()).includes("Something has changed"), "what the news say");
  check(await approve.isDisabled(), "what has changed can still be approved");
  check(!sent.includes("POST"), "the script sent a form");

  // A decision that comes too late is told who decided, and when.
  await page.locator("button.deny:not(.stop)").click();
  const notice = page.locator(".notice.not-done");
  await notice.waitFor();
  check(/too late\. Denied by ben on \d+ \w+ \d{4}, \d\d:\d\d UTC/.test(await notice.textContent()), await notice.textContent());

  // The inbox says when something comes.
  const inbox = await opened(browser);
  await stopClock(inbox);
  await inbox.goto("/review");
  await other.goto(scene.two);
  await other.locator("button.deny:not(.stop)").click();
  await other.locator("text=Denied by ben").waitFor();
  const again = inbox.waitForResponse((answer) => answer.url().endsWith("/review/mark"));
  await inbox.clock.runFor(6000);
  await again;
  await inbox.locator("#news.shown").waitFor();
  same(page.complaints.concat(inbox.complaints).join(), "", "complaints");
});
console.log("done");

// The time of the page goes on only when the script says.
async function stopClock(page) {
  await page.clock.install({ time: new Date("2026-11-30T12:00:00Z") });
  await page.clock.pauseAt(new Date("2026-11-30T12:00:01Z"));
}
