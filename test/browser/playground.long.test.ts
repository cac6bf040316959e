// The demo in a real browser: from its start to the first answered message in the console, and an escalation that is
// acknowledged and answered on the page of a notification's link and in the console. Screenshots are kept in
// .vitest/screenshots.

import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { startDemo } from "../support/machine/command.ts";
import { describeReal, needChromium, startChromium, visit } from "../support/machine/debian.ts";

const folder = fileURLToPath(new URL("../../.vitest/screenshots/", import.meta.url));
const phone = { width: 390, height: 844 };

/** Takes a screenshot in the browser's colours and in dark ones, and checks both with axe. */
async function inspect(page: Page, name: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${folder}${name}-${colorScheme}.png`, fullPage: true });
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate<axe.AxeResults>("axe.run()");
    expect(
      violations.map(({ id, nodes }) => ({ id, at: nodes.slice(0, 3).map(({ html }) => html) })),
      `${name} ${colorScheme}`,
    ).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

const missing = await needChromium();
describeReal("The demo in Chromium", missing, () => {
  let browser: Browser;
  beforeAll(async () => {
    await mkdir(folder, { recursive: true });
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  const openPlayground = async () => {
    const { url } = await startDemo(onTestFinished);
    const visitor = await visit(browser, url);
    await visitor.page.getByRole("button", { name: "Log in" }).click();
    await visitor.page.getByRole("heading", { name: "Playground" }).waitFor();
    return visitor;
  };
  /** Waits for a message on the page that contains the text. */
  const message = (page: Page, text: string | RegExp) => page.locator("ol.said > li").filter({ hasText: text }).first();
  /** A message that was written on the page. */
  const written = (page: Page, text: string) => page.locator("ol.said > li.mine").filter({ hasText: text }).first();

  it("shows the first answer, and answers mails, texts and calls", async () => {
    const began = performance.now();
    const { page, complaints, requests } = await openPlayground();
    await page.getByLabel("Subject").fill("Bulbs");
    await page.getByLabel("Mail", { exact: true }).fill("Which bulbs fit your lamps? <script>alert(1)</script>");
    await page.getByRole("button", { name: "Send the mail" }).click();
    await message(page, "E27 bulbs").waitFor();
    process.stderr.write(`demo: answered ${((performance.now() - began) / 1000).toFixed(1)} s after its start\n`);
    const own = written(page, "Which bulbs fit");
    await own.locator(".track li.done", { hasText: /^sent \d+ ms$/ }).waitFor();
    await inspect(page, "playground-mail");

    await page.getByRole("link", { name: "Text", exact: true }).click();
    await page.getByLabel(/^Text/).fill("How long does delivery take?");
    await page.getByRole("button", { name: "Send the text" }).click();
    await written(page, "How long does delivery take?").locator(".track li.done", { hasText: "delivered" }).waitFor();

    await page.getByRole("link", { name: "Call", exact: true }).click();
    await page.getByRole("button", { name: "Call" }).click();
    await message(page, "Lumen Lamps, hello!").waitFor();
    await page.getByLabel("Say").fill("Can a lamp be returned?");
    await page.getByRole("button", { name: "Say it" }).click();
    await message(page, "30 days").waitFor();
    await inspect(page, "playground-call");
    await page.getByRole("button", { name: "Hang up" }).click();
    await message(page, "The call is over").waitFor();
    expect(complaints).toEqual([]);
    expect(requests.filter((url) => !url.startsWith("http://127.0.0.1:"))).toEqual([]);
  });

  it("shows why a message to a fault's address has no answer", async () => {
    const { page } = await openPlayground();
    await page.getByLabel("From").fill("refused@fault.example");
    await page.getByLabel("Subject").fill("Bulbs");
    await page.getByLabel("Mail", { exact: true }).fill("Which bulbs fit your lamps?");
    await page.getByRole("button", { name: "Send the mail" }).click();
    await written(page, "refused@fault.example").locator(".track li.stop", { hasText: "5.1.1" }).waitFor();
    await page.getByText("Addresses that choose a fault").click();
    await inspect(page, "playground-fault");
  });

  it("acknowledges and answers an escalation by the link of the notification, and in the console", async () => {
    const { page, complaints } = await openPlayground();
    await page.getByLabel("Subject").fill("Broken");
    await page.getByLabel("Mail", { exact: true }).fill("I have a complaint: the lamp arrived broken.");
    await page.getByRole("button", { name: "Send the mail" }).click();
    // There may be one about the mail to the fault's address, too.
    const about = page.locator("ol.said > li").filter({ hasText: "the lamp arrived broken" });
    const link = about.getByRole("link", { name: "Open the link of the notification" });
    await link.waitFor();
    const [responder] = await Promise.all([page.waitForEvent("popup"), link.click()]);
    await responder.setViewportSize(phone);
    await responder.getByRole("heading", { name: /^Escalation \d+$/ }).waitFor();
    await responder.getByText("the lamp arrived broken").waitFor();
    await inspect(responder, "link-open");
    await responder.getByRole("button", { name: "Acknowledge" }).click();
    await responder.getByText("It is yours.").waitFor();
    await responder.getByLabel("Text for the customer").fill("I am sorry. A new lamp leaves today.");
    await responder.getByRole("button", { name: "Send to the customer" }).click();
    await responder.getByText("The text will be sent to the customer.").waitFor();
    await inspect(responder, "link-acknowledged");
    await responder.close();
    await message(page, "A new lamp leaves today.").waitFor();

    await page.getByRole("link", { name: "Escalations" }).click();
    await page.getByRole("heading", { name: "Escalations" }).waitFor();
    await inspect(page, "escalations");
    await page.getByRole("link", { name: /^\d+: complaint/ }).click();
    await page.getByRole("heading", { name: /^Escalation \d+/ }).waitFor();
    await page.getByText("acknowledged", { exact: true }).first().waitFor();
    await page.getByText("Reply to the customer").click();
    const form = page.locator("#act-reply");
    await form.getByLabel("Text for the customer").fill("It was handed to the carrier.");
    await form.getByLabel("Your name").fill("Olga");
    await form.getByRole("button", { name: "Send to the customer" }).click();
    await page.getByText("Will be sent to the customer.").waitFor();
    await page.getByText("Reply to the customer").click();
    await form.getByLabel("Text for the customer").fill("It was handed to the carrier.");
    await form.getByRole("button", { name: "Send to the customer" }).click();
    await page.getByText("not sent again").waitFor();
    expect(await form.getByLabel("Text for the customer").inputValue()).toBe("It was handed to the carrier.");
    await inspect(page, "escalation");
    await page.locator("#act-resume > summary").click();
    await page.locator("#act-resume").getByRole("button", { name: "Return to the agent" }).click();
    await page.getByText("Returned to the agent.").waitFor();
    await page.setViewportSize(phone);
    await inspect(page, "escalation-phone");
    expect(complaints.filter((text) => !text.includes("409"))).toEqual([]);
  });
});
