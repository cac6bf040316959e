// The daemon's side of systemd: notifications (sd_notify(3)) and the journal (sd-daemon(3)). Node has no unix datagram
// sockets, so systemd's own command sends the notifications; the unit needs NotifyAccess=all.

import { execFile } from "node:child_process";
import { fstatSync } from "node:fs";
import type { Log } from "bridgehead/contract";

export interface Notifier {
  /** Everything is started; `status` is what `systemctl status` shows. */
  ready(status: string): Promise<void>;
  status(text: string): Promise<void>;
  reloading(): Promise<void>;
  stopping(): Promise<void>;
  /** Asks for more time to start or stop, in milliseconds from now. */
  extend(ms: number): Promise<void>;
  watchdog(): Promise<void>;
  /** How often systemd wants to hear from us, in milliseconds; null when it does not. */
  readonly watchdogMs: number | null;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Does nothing when systemd did not start us (no NOTIFY_SOCKET). Never rejects: not being heard is not our failure. */
export function createNotifier(env: Env, log: Log, command = "systemd-notify"): Notifier {
  const socket = env["NOTIFY_SOCKET"];
  let complained = false;
  const tell = (...assignments: string[]): Promise<void> => {
    if (socket === undefined || socket === "") return Promise.resolve();
    return new Promise((resolve) => {
      const options = { env: { NOTIFY_SOCKET: socket, PATH: env["PATH"] ?? "/usr/bin:/bin" }, timeout: 5000 };
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

/** WATCHDOG_PID names the process systemd started: us, or the launcher that brought our Node. */
function watchdogInterval(env: Env): number | null {
  const microseconds = Number(env["WATCHDOG_USEC"]);
  if (!Number.isFinite(microseconds) || microseconds <= 0) return null;
  const pid = env["WATCHDOG_PID"];
  if (pid !== undefined && ![process.pid, process.ppid].includes(Number(pid))) return null;
  return microseconds / 1000;
}

/** True when the file descriptor is the stream that JOURNAL_STREAM names (systemd.exec(5): device and inode). */
export function isJournal(journalStream: string | undefined, descriptor: number): boolean {
  if (journalStream === undefined) return false;
  try {
    const { dev, ino } = fstatSync(descriptor);
    return journalStream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** Puts the journal priority `err` (sd-daemon(3)) before every line that has no priority yet. */
export const withErrorPriority = (text: string): string => text.replace(/^(?!<[0-7]>)(?=.)/gm, "<3>");
