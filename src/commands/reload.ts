// bridgehead reload: run by the unit's ExecReload=. It requests a reload from the running daemon and ends
// with the result, so that `systemctl reload` fails when the configuration is rejected. The daemon does the
// check, because only its process is certain to have the service's environment and credentials.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock as clock, newToken } from "../ops/clock.ts";
import { exitCodes, fail, type Io } from "./io.ts";

/** Result of a reload for the operator. */
export interface ReloadOutcome {
  /** rejected: the configuration is invalid. failed: it could not be applied. In both cases the old one
   *  stays in use. */
  readonly result: "applied" | "rejected" | "failed";
  /** The reasons, or after `applied` the warnings for the operator. */
  readonly lines: readonly string[];
}

interface Recorded extends ReloadOutcome {
  /** Unique for every outcome, also across restarts. */
  readonly id: string;
}

/** Path of the file in the unit's RuntimeDirectory= that contains the daemon's result; null without a
 *  RuntimeDirectory=. */
function outcomeFile(env: Io["env"]): string | null {
  const folder = env["RUNTIME_DIRECTORY"]?.split(":")[0];
  return folder === undefined || folder === "" ? null : join(folder, "reload.json");
}

/** Called by the daemon when it can be reloaded, and after each reload. Replaces the file atomically.
 *  Does nothing without a RuntimeDirectory=. Throws when the file cannot be written. */
export function recordReload(env: Io["env"], outcome: ReloadOutcome): void {
  const file = outcomeFile(env);
  if (file === null) return;
  const recorded: Recorded = { id: newToken(), ...outcome };
  writeFileSync(`${file}.new`, JSON.stringify(recorded), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export async function reloadDaemon(_options: object, io: Io): Promise<number> {
  const file = outcomeFile(io.env);
  const pid = Number(io.env["MAINPID"]);
  if (file === null || !Number.isSafeInteger(pid) || pid <= 1)
    fail(
      "reload is run by the systemd unit, with MAINPID and RUNTIME_DIRECTORY: use systemctl reload",
      exitCodes.usage,
    );
  const before = read(file);
  if (before === null) fail(`the daemon has not reported to ${file} yet: it is still starting`);
  if (!signalled(pid, "SIGHUP")) fail(`there is no process ${pid} to reload`);
  const { reload: waitMs, reloadCheck } = io.timing.commands;
  const began = clock.monotonic();
  while (clock.monotonic() - began < waitMs && !io.signal.aborted) {
    const now = read(file);
    if (now !== null && now.id !== before.id) return report(now, io);
    if (!signalled(pid, 0)) fail("the daemon ended before it had reloaded its configuration");
    await clock.sleep(reloadCheck, io.signal);
  }
  return fail("the daemon did not report in time whether it has reloaded its configuration; see its log");
}

function report({ result, lines }: Recorded, io: Io): number {
  const print = result === "applied" ? io.out : io.err;
  for (const line of lines) print(line);
  if (result === "applied") {
    io.out("configuration reloaded");
    return exitCodes.ok;
  }
  io.err(`configuration ${result === "rejected" ? "rejected" : "not applied"}: the old one stays in use`);
  return result === "rejected" ? exitCodes.config : exitCodes.failed;
}

function read(file: string): Recorded | null {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Recorded;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw new Error(`reading the outcome of the reload from ${file} failed`, { cause: error });
  }
}

/** False when there is no such process. */
function signalled(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw new Error(`sending a signal to process ${pid} failed`, { cause: error });
  }
}
