// systemd integration: notifications (sd_notify(3)) and the journal (sd-daemon(3)). Node has no unix datagram sockets,
// so the `systemd-notify` command sends the notifications; the unit needs NotifyAccess=all. The watchdog is fed only
// while the event loop is responsive, all probes (the store, the listener) answer, and no channel supervisor is stuck.
// A plain timer would check the event loop only.

import { execFile } from "node:child_process";
import { fstatSync } from "node:fs";
import type { Clock, Log } from "bridgehead/contract";
import type { Timing } from "./timing.ts";

export type Notifier = ReturnType<typeof createNotifier>;

type Env = Readonly<Record<string, string | undefined>>;

/** Does nothing when systemd did not start the process (no NOTIFY_SOCKET). Never rejects: a failed
 *  notification is logged once and ignored. */
export function createNotifier(
  env: Env,
  log: Log,
  { notify: timeout }: Pick<Timing["health"], "notify">,
  command = "systemd-notify",
) {
  const socket = env["NOTIFY_SOCKET"];
  let complained = false;
  const notify = (...assignments: string[]): Promise<void> => {
    if (socket === undefined || socket === "") return Promise.resolve();
    return new Promise((resolve) => {
      const options = { env: { NOTIFY_SOCKET: socket, PATH: env["PATH"] ?? "/usr/bin:/bin" }, timeout };
      execFile(command, assignments, options, (error) => {
        if (error !== null && !complained) {
          complained = true;
          log.warn({ err: error }, "notifying systemd failed");
        }
        resolve();
      });
    });
  };
  const oneLine = (text: string): string => `STATUS=${text.replace(/\s+/g, " ")}`;
  return {
    /** True when systemd receives the notifications. */
    isUsed: socket !== undefined && socket !== "",
    /** Reports that the startup is complete; `systemctl status` shows `status`. */
    ready: (status: string) => notify("READY=1", oneLine(status)),
    status: (text: string) => notify(oneLine(text)),
    reloading: () => notify("RELOADING=1", oneLine("reloading")),
    stopping: () => notify("STOPPING=1", oneLine("stopping")),
    /** Requests more time to start or stop, in milliseconds from now. */
    extend: (ms: number) => notify(`EXTEND_TIMEOUT_USEC=${Math.round(ms * 1000)}`),
    watchdog: () => notify("WATCHDOG=1"),
    /** Watchdog interval that systemd expects, in milliseconds; null when the watchdog is disabled. */
    watchdogMs: socket === undefined ? null : watchdogInterval(env),
  };
}

/** WATCHDOG_PID is the process that systemd started: this one, or the launcher that started Node. */
function watchdogInterval(env: Env): number | null {
  const microseconds = Number(env["WATCHDOG_USEC"]);
  if (!Number.isFinite(microseconds) || microseconds <= 0) return null;
  const pid = env["WATCHDOG_PID"];
  if (pid !== undefined && ![process.pid, process.ppid].includes(Number(pid))) return null;
  return microseconds / 1000;
}

/** Returns whether the file descriptor is the stream in JOURNAL_STREAM (systemd.exec(5): device and inode). */
export function isJournal(journalStream: string | undefined, descriptor: number): boolean {
  if (journalStream === undefined) return false;
  try {
    const { dev, ino } = fstatSync(descriptor);
    return journalStream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** Adds the journal priority `err` (sd-daemon(3)) to every line without a priority. */
export const withErrorPriority = (text: string): string => text.replace(/^(?!<[0-7]>)(?=.)/gm, "<3>");

export interface WatchdogOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Watchdog interval in milliseconds; it is fed twice per interval. */
  readonly intervalMs: number;
  feed(): Promise<void>;
  /** Probes by name ("the store"). A probe rejects or hangs when its target does not answer. The signal
   *  aborts with the watchdog, and when the timeout of the probe expires. */
  readonly probes: Readonly<Record<string, (signal: AbortSignal) => Promise<void>>>;
  /** Returns the names of components whose heartbeat is overdue. */
  stuck(): readonly string[];
  readonly timing: Pick<Timing["health"], "lag" | "probe">;
}

/** Runs until the signal aborts. Never throws. Logs each change of the reason for which the watchdog is not fed. */
export async function runWatchdog(options: WatchdogOptions, signal: AbortSignal): Promise<void> {
  const { clock, log } = options;
  const { lag: maxLagMs, probe: maxProbeAgeMs } = options.timing;
  const pause = Math.max(10, Math.min(options.intervalMs / 2, maxProbeAgeMs / 3));
  const answeredAt = new Map(Object.keys(options.probes).map((name) => [name, clock.monotonic()]));
  const probing = new Set<string>();
  let silent = "";

  const probe = async (name: string, ask: (signal: AbortSignal) => Promise<void>): Promise<void> => {
    if (probing.has(name)) return;
    probing.add(name);
    const asked = clock.monotonic();
    try {
      await ask(AbortSignal.any([signal, AbortSignal.timeout(maxProbeAgeMs)]));
      answeredAt.set(name, asked);
    } catch (error) {
      if (!signal.aborted) log.error({ err: error, probe: name }, "watchdog probe failed");
    } finally {
      probing.delete(name);
    }
  };

  const reason = (lag: number): string => {
    if (lag > maxLagMs) return "the event loop was blocked";
    for (const [name, at] of answeredAt) if (clock.monotonic() - at > maxProbeAgeMs) return `${name} does not answer`;
    const stuck = options.stuck();
    return stuck.length === 0 ? "" : `stuck: ${stuck.join(", ")}`;
  };

  let lag = 0;
  while (!signal.aborted) {
    for (const [name, ask] of Object.entries(options.probes)) void probe(name, ask);
    const why = reason(lag);
    if (why === "") await options.feed();
    if (why !== silent) {
      if (why === "") log.info({}, "watchdog notified again");
      else log.error({ reason: why }, "watchdog not notified");
      silent = why;
    }
    const before = clock.monotonic();
    await clock.sleep(pause, signal);
    lag = clock.monotonic() - before - pause;
  }
}
