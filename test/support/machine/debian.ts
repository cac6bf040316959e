// Real servers from Debian's archive. On a machine with root and apt a missing one is installed; elsewhere the tests
// that need it are skipped with one line saying why, or fail when nothing may be skipped.

import { execFile } from "node:child_process";
import { closeSync, existsSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { describe, onTestFinished } from "vitest";

const run = promisify(execFile);
const lockFile = join(tmpdir(), "bridgehead-apt.lock");

/** Makes sure that `probe` (a file of the Debian package) exists. Answers null, or why it does not. */
export async function need(debianPackage: string, probe: string): Promise<string | null> {
  if (existsSync(probe)) return null;
  const reason = await install(debianPackage, probe);
  if (reason !== null && process.env["BRIDGEHEAD_REQUIRE_ALL"] === "1") throw new Error(reason);
  return reason;
}

/** `describe`, or a skipped one that says so on exactly one line. */
export function describeReal(what: string, missing: string | null, body: () => void): void {
  if (missing === null) describe(what, body);
  else {
    process.stderr.write(`SKIPPED: ${what}: ${missing}\n`);
    describe.skip(what, body);
  }
}

async function install(debianPackage: string, probe: string): Promise<string | null> {
  if (process.getuid?.() !== 0) return `${debianPackage} is not installed (and we are not root)`;
  if (!existsSync("/usr/bin/apt-get")) return `${debianPackage} is not installed (and there is no apt-get)`;
  const unlock = await lock();
  try {
    if (existsSync(probe)) return null;
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
    const install = () => run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", debianPackage], { env });
    await install().catch(async () => {
      await run("apt-get", ["update", "-qq"], { env });
      await install();
    });
    return existsSync(probe) ? null : `${debianPackage} was installed without ${probe}`;
  } catch (error) {
    return `${debianPackage} could not be installed (${String(error).split("\n")[0]})`;
  } finally {
    unlock();
  }
}

/** One apt at a time across parallel test files; a lock older than ten minutes belongs to a dead process. */
async function lock(): Promise<() => void> {
  for (;;) {
    try {
      const file = openSync(lockFile, "wx");
      writeSync(file, String(process.pid));
      closeSync(file);
      return () => rmSync(lockFile, { force: true });
    } catch {
      const age = Date.now() - (statSync(lockFile, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      if (age > 600_000) rmSync(lockFile, { force: true });
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/** The environment variable with the address at which the run makes what its tests share (`test/support/run.ts`). */
export const serversVariable = "BRIDGEHEAD_TEST_SERVERS";

/** How to reach what the tests of the run share, which is made with its first use. Rejects when it cannot be made. */
export async function sharedByRun(name: "postgres" | "dovecot" | "Debian package"): Promise<string> {
  const response = await fetch(`${process.env[serversVariable]}/${encodeURIComponent(name)}`);
  const text = await response.text();
  if (!response.ok) throw new Error(`starting ${name} for this run: ${text}`);
  return text;
}

// Debian's Chromium, without a window and with a profile of its own that goes with it. The driver brings no browser.

const browser = "/usr/bin/chromium";

/** Null, or why there is no browser. */
export const needChromium = (): Promise<string | null> => need("chromium", browser);

/** Keeps the browser's own requests on this machine: only our host names resolve. */
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
export async function startChromium(): Promise<Browser> {
  // Loaded here, because few tests need a browser.
  const { chromium } = await import("playwright-core");
  return chromium.launch({ executablePath: browser, headless: true, args: flags, timeout: 110_000 });
}

export interface Visit {
  readonly page: Page;
  /** Errors and warnings of the page's console, and uncaught exceptions. */
  readonly complaints: string[];
  /** What it asked for, in order. */
  readonly requests: string[];
}

/** A visitor of his own, who has never been here; gone when the test is. */
export async function visit(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Visit> {
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
