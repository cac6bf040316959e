// The last 24 hours for the chart. Counts of past hours are kept for a while, because they rarely change: an answer, or an
// operator.

import { countHour, type HourCounts, lastQuestions } from "../store/operators/hours.ts";
import type { ConsoleContext } from "./context.ts";

export interface Hour extends HourCounts {
  /** Begin of the hour, epoch milliseconds. */
  readonly from: number;
}

export interface ActivityReport {
  /** Oldest first; the last one is the current, incomplete hour. */
  readonly hours: readonly Hour[];
  /** The last message of each channel, epoch milliseconds. */
  readonly last: ReadonlyMap<string, number>;
}

const shownHours = 24;

export class Activity {
  readonly #context: Pick<ConsoleContext, "db" | "clock" | "timing">;
  readonly #kept = new Map<number, { readonly hour: Hour; readonly at: number }>();

  constructor(context: Pick<ConsoleContext, "db" | "clock" | "timing">) {
    this.#context = context;
  }

  async read(): Promise<ActivityReport> {
    const { db, clock, timing } = this.#context;
    const { hour: length, keep } = timing.console;
    const now = clock.now();
    const current = now - (now % length);
    const begins = Array.from(
      { length: shownHours + 1 },
      (_, index) => current - (shownHours - index) * length,
    );
    for (const from of this.#kept.keys()) if (!begins.includes(from)) this.#kept.delete(from);
    const hours: Hour[] = [];
    for (const from of begins) {
      const known = this.#kept.get(from);
      // The hour before the current one still changes: its answers are on their way.
      const settled = from < current - length;
      if (settled && known && now - known.at < keep) {
        hours.push(known.hour);
        continue;
      }
      // One read for each hour: SQLite blocks the thread for the time of a read.
      const counts = await db.read((q) => countHour(q, from, from + length));
      const hour = { from, ...counts };
      this.#kept.set(from, { hour, at: now });
      hours.push(hour);
    }
    const last = new Map(await db.read(lastQuestions));
    for (const hour of hours)
      for (const [channel, at] of hour.last) last.set(channel, Math.max(at, last.get(channel) ?? 0));
    return { hours, last };
  }
}
