// Debian's Chromium, without a window and with a profile of its own that goes with it. The driver brings no browser.

import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { onTestFinished } from "vitest";
import { need } from "./debian.ts";

const program = "/usr/bin/chromium";

/** Null, or why there is no browser. */
export const needChromium = (): Promise<string | null> => need("chromium", program);

/** What the browser does by itself stays on this machine: no name but ours has an address. */
const flags = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/** Resolves when it can be driven. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: program, headless: true, args: flags, timeout: 110_000 });
}

export interface Visit {
  readonly page: Page;
  /** What the page complained of: errors and warnings of its console, and what nobody caught. */
  readonly complaints: string[];
  /** What it asked for, in order. */
  readonly requests: string[];
}

/** A visitor of his own, who has never been here; gone when the test is. */
export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  onTestFinished(() => context.close());
  context.setDefaultTimeout(150_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => void complaints.push(error.message));
  context.on("request", (request) => void requests.push(request.url()));
  await page.goto(url);
  return { page, complaints, requests };
}
