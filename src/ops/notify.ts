// systemd integration: notifications (sd_notify(3)) and the journal (sd-daemon(3)). Node has no unix
// datagram sockets, so the `systemd-notify` command sends the notifications; the unit needs
// NotifyAccess=all.

import { execFile } from "node:child_process";
import { fstatSync } from "node:fs";
import type { Log } from "bridgehead/contract";
import { standardTiming, type Timing } from "./timing.ts";

export interface Notifier {
  /** Reports that the startup is complete; `systemctl status` shows `status`. */
  ready(status: string): Promise<void>;
  status(text: string): Promise<void>;
  reloading(): Promise<void>;
  stopping(): Promise<void>;
  /** Requests more time to start or stop, in milliseconds from now. */
  extend(ms: number): Promise<void>;
  watchdog(): Promise<void>;
  /** Watchdog interval that systemd expects, in milliseconds; null when the watchdog is disabled. */
  readonly watchdogMs: number | null;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Does nothing when systemd did not start the process (no NOTIFY_SOCKET). Never rejects: a failed
 *  notification is logged once and ignored. */
export function createNotifier(
  env: Env,
  log: Log,
  { notify: timeout }: Timing["health"] = standardTiming.health,
  command = "systemd-notify",
): Notifier {
  const socket = env["NOTIFY_SOCKET"];
  let complained = false;
  const tell = (...assignments: string[]): Promise<void> => {
    if (socket === undefined || socket === "") return Promise.resolve();
    return new Promise((resolve) => {
      const options = { env: { NOTIFY_SOCKET: socket, PATH: env["PATH"] ?? "/usr/bin:/bin" }, timeout };
      execFile(command, assignments, options, (error) => {
        if (error !== null && !complained) {
          complained = true;
          log.warn({ err: error }, "systemd cannot be notified");
        }
        resolve();
      });
    });
  };
  const oneLine = (text: string): string => `STATUS=${text.replace(/\s+/g, " ")}`;
  return {
    ready: (status) => tell("READY=1", oneLine(status)),
    status: (text) => tell(oneLine(text)),
    reloading: () => tell("RELOADING=1", oneLine("reloading")),
    stopping: () => tell("STOPPING=1", oneLine("stopping")),
    extend: (ms) => tell(`EXTEND_TIMEOUT_USEC=${Math.round(ms * 1000)}`),
    watchdog: () => tell("WATCHDOG=1"),
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

/** Returns whether the file descriptor is the stream in JOURNAL_STREAM (systemd.exec(5): device and
 *  inode). */
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
