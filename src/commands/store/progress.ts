// Progress of a long operation: a bar on a terminal, otherwise one line when it has taken a second. Written to
// standard error, so that the output of --json stays valid.

import { systemClock } from "../../ops/clock.ts";
import { standardTiming } from "../../ops/timing.ts";
import type { Io } from "../io.ts";

export interface ProgressBar {
  /** Adds finished units. */
  add(units: number): void;
  /** Sets the number of finished units. */
  set(units: number): void;
  /** Names the current part, such as a table. */
  part(name: string): void;
  /** Removes the bar. Call it before the result is printed, also after a failure. */
  end(): void;
}

const width = 24;
const { progress: interval, progressAfter } = standardTiming.commands;

/** Starts the display after a second. `total` is in any unit; null when it is unknown. */
export function startProgress(
  io: Pick<Io, "err" | "terminal" | "draw">,
  what: string,
  total: number | null,
): ProgressBar {
  const started = systemClock.monotonic();
  const ends = new AbortController();
  let [finished, name, shown] = [0, "", false];
  const line = () => {
    const seconds = Math.floor((systemClock.monotonic() - started) / 1000);
    const share = total === null || total === 0 ? null : Math.min(1, finished / total);
    const filled = Math.floor((share ?? 0) * width);
    const bar =
      share === null
        ? ""
        : ` [${"#".repeat(filled)}${".".repeat(width - filled)}] ${Math.floor(share * 100)}%`;
    return `${what}${name === "" ? "" : ` ${name}`}${bar} ${seconds} s`;
  };
  const show = async () => {
    await systemClock.sleep(progressAfter, ends.signal);
    if (ends.signal.aborted) return;
    if (!io.terminal) return io.err(`${what} ...`);
    shown = true;
    while (!ends.signal.aborted) {
      io.draw?.(line());
      await systemClock.sleep(interval, ends.signal);
    }
  };
  void show();
  return {
    add: (units) => void (finished += units),
    set: (units) => void (finished = units),
    part: (next) => void (name = next),
    end() {
      ends.abort();
      if (shown) io.draw?.("");
      shown = false;
    },
  };
}
