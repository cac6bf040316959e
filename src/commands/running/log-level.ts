// bridgehead log-level: shows or changes the log level of the running daemon, optionally for a limited time. The command and
// the daemon exchange a request and its answer through the store.

import type { Clock } from "bridgehead/contract";
import { systemClock } from "../../ops/clock.ts";
import type { Level, RunningLog } from "../../ops/log.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Database } from "../../store/driver.ts";
import {
  answerLogLevel,
  type LogLevelAnswer,
  readLogLevelAnswer,
  readLogLevelRequest,
  requestLogLevel,
} from "../../store/operators/log-level.ts";
import { type CommandOptions, exitCodes, fail, type Io } from "../io.ts";
import { withStore } from "../store/open.ts";
import { when } from "../text.ts";

const levels = ["debug", "info", "warn", "error"] as const satisfies readonly Level[];

export async function logLevel(
  /** `for`: milliseconds; default: until the next restart or reload. */
  options: CommandOptions & { readonly level?: Level; readonly for?: number },
  io: Io,
): Promise<number> {
  const { level, for: forMs = 0 } = options;
  if (level === undefined && forMs > 0)
    fail("log-level: --for needs a level, such as: log-level debug --for 10m", exitCodes.usage);
  return withStore(options, io, async (db) => {
    const wanted = { level: level === undefined ? -1 : levels.indexOf(level), forMs };
    const id = await db.tx((q) => requestLogLevel(q, wanted));
    const answer = await awaitAnswer(db, id, io.timing.commands, io.signal);
    if (answer === null)
      return fail("no daemon answered: it does not run on this store, or is still starting (see its log)");
    const end = answer.until === 0 ? "" : ` until ${when(answer.until)} UTC`;
    io.out(`the daemon logs at level ${levels[answer.level] ?? "unknown"}${end}`);
    return exitCodes.ok;
  });
}

async function awaitAnswer(
  db: Database,
  id: number,
  { logLevel: patience, logLevelCheck }: Timing["commands"],
  signal: AbortSignal,
): Promise<LogLevelAnswer | null> {
  for (const end = systemClock.monotonic() + patience; systemClock.monotonic() < end && !signal.aborted; ) {
    const answer = await db.read(readLogLevelAnswer);
    if (answer?.id === id) return answer;
    await systemClock.sleep(logLevelCheck, signal);
  }
  return null;
}

/** A task of the daemon: applies the requests that are made from now on. `configured` returns the level of the
 *  configuration, which a reload may change. */
export class LogLevels {
  readonly #log: RunningLog;
  readonly #configured: () => Level;
  #level: Level;
  readonly #clock: Clock;
  /** Epoch milliseconds, to be shown; 0 while no time limit is set. */
  #until = 0;
  /** The same time in monotonic milliseconds, which counts also when the clock is corrected. */
  #end = 0;

  constructor(log: RunningLog, configured: () => Level, clock: Clock) {
    this.#log = log;
    this.#configured = configured;
    this.#clock = clock;
    this.#level = configured();
  }

  /** Returns to the configured level, after a reload and when the time is over. */
  reset(): void {
    this.#set(this.#configured(), 0);
  }

  /** Runs until the signal aborts. Rejects when the store cannot be read; the task is then started again. */
  async follow(db: Database, { logLevelCheck }: Timing["upkeep"], signal: AbortSignal): Promise<void> {
    const clock = this.#clock;
    let last = (await db.read(readLogLevelRequest))?.id ?? 0;
    while (!signal.aborted) {
      await clock.sleep(logLevelCheck, signal);
      if (this.#until > 0 && clock.monotonic() >= this.#end) {
        this.reset();
        this.#log.info({ wanted: this.#level }, "log level restored: its time is over");
      }
      const request = signal.aborted ? null : await db.read(readLogLevelRequest);
      if (request === null || request.id === last) continue;
      last = request.id;
      const wanted = levels[request.level];
      if (wanted !== undefined) {
        this.#set(wanted, request.forMs);
        // An operator changed what is logged, so this is a warning: it is shown at most levels.
        this.#log.warn({ wanted }, "log level changed by an operator");
      }
      const answer = { id: last, level: levels.indexOf(this.#level), until: this.#until };
      await db.tx((q) => answerLogLevel(q, answer));
    }
  }

  /** `forMs`: 0 without a time limit. */
  #set(level: Level, forMs: number): void {
    this.#level = level;
    this.#until = forMs === 0 ? 0 : this.#clock.now() + forMs;
    this.#end = this.#clock.monotonic() + forMs;
    this.#log.setLevel(level);
  }
}
