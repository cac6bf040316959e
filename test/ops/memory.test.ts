import { execFile } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { allowOptimization, deferOptimization, optimizeWhenBusy, tidyAfterStart } from "../../src/ops/memory.ts";
import { root } from "../support/machine/command.ts";

/** A clock whose first `busy` sleeps block the event loop for their time. */
function clockWith(busy: number) {
  const counts = { sleeps: 0 };
  const sleep = async (): Promise<void> => {
    counts.sleeps += 1;
    const until = performance.now() + 50;
    if (counts.sleeps <= busy) while (performance.now() < until);
    else await delay(200);
  };
  return { counts, clock: { ...systemClock, sleep } };
}

describe("the collection after startup", () => {
  it("waits while the event loop is busy", async () => {
    const { clock, counts } = clockWith(3);
    await tidyAfterStart(clock, 10, new AbortController().signal);
    expect(counts.sleeps).toBeGreaterThan(3);
  });

  it("is left out when the daemon stops first", async () => {
    const { clock, counts } = clockWith(3);
    await tidyAfterStart(clock, 10, AbortSignal.abort());
    expect(counts.sleeps).toBe(1);
  });
});

/** Prints the names that the daemon's own files import, other than their own. */
const imports = `
  import { registerHooks } from "node:module";
  const found = new Set();
  registerHooks({
    resolve(name, context, next) {
      const isOwn = context.parentURL !== undefined && !context.parentURL.includes("/node_modules/");
      if (isOwn && !/^(?:[./]|node:|file:|bridgehead)/.test(name)) found.add(name);
      return next(name, context);
    },
  });
  for (const file of process.argv.slice(1)) await import(file);
  console.log(JSON.stringify([...found].sort()));`;

describe("the start of a daemon with a mailbox", () => {
  it("loads only the packages that every such daemon needs", async () => {
    const files = [
      "src/commands/program.ts",
      "src/commands/run.ts",
      "src/console/server.ts",
      "adapters/email/index.ts",
    ].map((name) => root + name);
    const argv = ["--conditions=source", "--input-type=module", "--eval", imports, ...files];
    const { stdout } = await promisify(execFile)(process.execPath, argv);
    const packages = (JSON.parse(stdout) as string[]).map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0]);
    expect([...new Set(packages)]).toEqual([
      "@hono/node-server",
      "better-sqlite3",
      "commander",
      "fast-string-truncated-width",
      "hono",
      "imapflow",
      "ipaddr.js",
      "nodemailer",
      "p-queue",
      "pino",
      "postal-mime",
      "undici",
      "yaml",
      "zod",
    ]);
  });
});

/** Allocates objects that survive, and prints the megabytes of V8's young generation before and after `allowOptimization`. */
const growth = (file: string) => `
  import { getHeapSpaceStatistics } from "node:v8";
  import { allowOptimization, deferOptimization } from ${JSON.stringify(file)};
  const kept = [];
  const grown = () => {
    for (let n = 0; n < 500_000; n += 1) kept.push({ n });
    return getHeapSpaceStatistics().find((space) => space.space_name === "new_space").space_size / 2 ** 20;
  };
  deferOptimization();
  const startup = grown();
  allowOptimization();
  console.log(JSON.stringify({ startup, running: grown() }));`;

describe("the young generation", () => {
  it("grows when the daemon is ready", async () => {
    const argv = ["--conditions=source", "--input-type=module", "--eval", growth(`${root}src/ops/memory.ts`)];
    const { stdout } = await promisify(execFile)(process.execPath, argv);
    const { startup, running } = JSON.parse(stdout) as { startup: number; running: number };
    expect(startup).toBeLessThanOrEqual(2);
    expect(running).toBeGreaterThan(4);
  });
});

describe("the optimizing compilers", () => {
  /** Of V8's `%GetOptimizationStatus`. */
  const bits = { maglev: 32, turbofan: 64 };

  /** Runs a function until one of these has compiled it, or until it has run too often to be left alone. */
  function compilers() {
    setFlagsFromString("--allow-natives-syntax");
    const run = runInNewContext(`(() => {
      const sum = (n) => { let all = 0; for (let i = 0; i < n; i += 1) all += i; return all; };
      const compiled = (wanted, last) => {
        for (let round = 0; round < 200 && (%GetOptimizationStatus(sum) & last) === 0; round += 1) many();
        return %GetOptimizationStatus(sum) & wanted;
      };
      const many = () => { for (let round = 0; round < 1000; round += 1) sum(1000); };
      for (const whole of [compiled, many]) %NeverOptimizeFunction(whole); // it would contain the function itself
      return compiled;
    })()`) as (wanted: number, last: number) => number;
    const found = run(bits.maglev | bits.turbofan, bits.turbofan);
    return { maglev: (found & bits.maglev) !== 0, turbofan: (found & bits.turbofan) !== 0 };
  }

  it("start one after the other: the fast one when the daemon is ready, the slow one when it has worked for long", async () => {
    deferOptimization();
    expect(compilers()).toEqual({ maglev: false, turbofan: false });
    allowOptimization();
    const { clock } = clockWith(Number.POSITIVE_INFINITY);
    await optimizeWhenBusy(clock, { busyMs: Number.POSITIVE_INFINITY, checkMs: 10 }, AbortSignal.abort());
    // A thread of its own compiles the function.
    await expect.poll(compilers).toEqual({ maglev: true, turbofan: false });
    const { user, system } = process.cpuUsage();
    const limits = { busyMs: (user + system) / 1000 + 200, checkMs: 10 };
    await optimizeWhenBusy(clock, limits, new AbortController().signal);
    await expect.poll(() => compilers().turbofan).toBe(true);
  });
});
