// Checks an SQLite store once after an unclean end of the daemon: a crash, SIGKILL, a power failure. A mark in the store
// shows whether the last daemon ended cleanly. Statements meet damage only where they read; the check reads every page.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { after } from "../../ops/clock.ts";
import type { Core, FileCheck } from "../driver.ts";
import { readMeta, writeMeta } from "../tables/meta.ts";
import { isDamage } from "./damaged.ts";
import type { QuickCheckResult } from "./quick-check.ts";

const source = new URL("./quick-check.ts", import.meta.url);
const program = fileURLToPath(import.meta.url.endsWith(".ts") ? source : new URL(source.href.replace(/ts$/, "js")));

/** Checks the pages of `file` in a process of its own, for at most `longestMs`. Ends with the signal. Never rejects. */
export async function checkFile(file: string, longestMs: number, signal: AbortSignal): Promise<FileCheck> {
  const child = spawn(process.execPath, [program, file], { stdio: ["ignore", "pipe", "ignore"], env: {} });
  let reason = "its process ended early";
  const kill = (why: string) => {
    reason = why;
    child.kill("SIGKILL");
  };
  const stop = () => kill("the daemon is stopping");
  const ended = after(longestMs, () => kill(`it takes longer than ${longestMs / 1000} s`));
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.on("error", (error) => (reason = error.message));
  await new Promise((resolve) => child.once("close", resolve));
  ended();
  signal.removeEventListener("abort", stop);
  return resultOf(output, reason);
}

/** A process that was killed has written nothing. */
function resultOf(output: string, reason: string): FileCheck {
  if (output === "") return { kind: "unfinished", reason };
  const result = JSON.parse(output) as QuickCheckResult;
  if ("problem" in result)
    return result.problem === null
      ? { kind: "sound" }
      : { kind: "damaged", problem: result.problem.replace(/\s+/g, " ") };
  return isDamage(result) ? { kind: "damaged", problem: result.error } : { kind: "unfinished", reason: result.error };
}

/** Of one life of the daemon. On PostgreSQL, which checks its pages itself, it does nothing. */
export class StoreCheck {
  readonly #core: Pick<Core, "db" | "log" | "clock" | "timing">;
  /** True until the file is known to be sound after an unclean end. */
  #isDue = false;

  constructor(core: Pick<Core, "db" | "log" | "clock" | "timing">) {
    this.#core = core;
  }

  /** Marks the store as in use. Call at the start, before any other work. */
  async begin(): Promise<void> {
    const { db, log } = this.#core;
    if (db.kind !== "sqlite") return;
    this.#isDue = await db.tx(async (q) => {
      const wasInUse = (await readMeta(q, mark)) === 1;
      await writeMeta(q, mark, 1);
      return wasInUse;
    });
    if (this.#isDue) log.warn({}, "store was not closed cleanly: its file is checked in the background");
  }

  /** Checks the file when that is due, after a pause for the work that waits since the crash. Damage is then known to
   *  `Database.damage`. Call when the daemon is ready. */
  async run(signal: AbortSignal): Promise<void> {
    if (!this.#isDue) return;
    const { db, log, clock, timing } = this.#core;
    await clock.sleep(timing.upkeep.storeCheckDelay, signal);
    if (signal.aborted) return;
    const began = clock.monotonic();
    const result = await db.check(timing.upkeep.storeCheckLongest, signal);
    const duration_ms = Math.round(clock.monotonic() - began);
    if (result.kind === "sound") {
      this.#isDue = false;
      log.info({ duration_ms }, "store check passed");
    } else if (result.kind === "damaged") log.error({ duration_ms, reason: db.damage() }, "store damaged");
    else if (!signal.aborted) log.warn({ duration_ms, reason: result.reason }, "store check not finished");
  }

  /** Marks the store as closed, unless the check is still due or damage is known. Call at the end, before it is closed. */
  async end(): Promise<void> {
    const { db } = this.#core;
    if (db.kind !== "sqlite" || this.#isDue || db.damage() !== null) return;
    // A store that cannot be written keeps its mark.
    await db.tx((q) => writeMeta(q, mark, 0)).catch(() => undefined);
  }
}

/** Present in `meta` with the value 1 while a daemon uses the store. */
const mark = "in_use";
