// Progress of a long operation: a bar on the terminal of standard error after a second. The output of a command is on
// standard output, so that of --json stays valid; without a terminal nothing is shown.

import { systemClock } from "../../ops/clock.ts";
import { durationText } from "../../ops/duration-text.ts";
import { standardTiming } from "../../ops/timing.ts";
import type { Io } from "../io.ts";

const width = 24;
const { progress: interval, progressAfter } = standardTiming.commands;

export class ProgressBar {
  readonly #io: Pick<Io, "terminal" | "draw">;
  readonly #what: string;
  readonly #total: number | null;
  readonly #started = systemClock.monotonic();
  readonly #ended = new AbortController();
  #finished = 0;
  #part = "";
  #measure = () => 0;

  /** Starts the display. `total` is in any unit; null when it is unknown. */
  constructor(io: Pick<Io, "terminal" | "draw">, what: string, total: number | null = 1) {
    this.#io = io;
    this.#what = what;
    this.#total = total;
    if (io.terminal) void this.#show();
  }

  /** Adds finished units. */
  add(units: number): void {
    this.#finished += units;
  }

  /** Names the current part, such as a table, and sets the number of finished units when it is given. */
  part(name: string, finished = this.#finished): void {
    this.#part = name;
    this.#finished = Math.max(this.#finished, finished);
  }

  /** Calls `finished` at each redraw for the number of finished units. */
  measure(finished: () => number): void {
    this.#measure = finished;
  }

  /** Removes the bar. Call it before the result is printed, also after a failure. */
  end(): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    if (this.#isShown) this.#io.draw?.("");
  }

  #isShown = false;

  async #show(): Promise<void> {
    const { signal } = this.#ended;
    for (let wait = progressAfter; ; wait = interval) {
      await systemClock.sleep(wait, signal);
      if (signal.aborted) return;
      this.#isShown = true;
      this.#io.draw?.(this.#line());
    }
  }

  #line(): string {
    this.#finished = Math.max(this.#finished, this.#measure());
    const took = durationText(systemClock.monotonic() - this.#started);
    const text = `${this.#what}${this.#part === "" ? "" : ` ${this.#part}`}`;
    if (this.#total === null || this.#total === 0) return `${text} ${took}`;
    const share = Math.min(1, this.#finished / this.#total);
    const filled = Math.floor(share * width);
    return `${text} [${"#".repeat(filled)}${".".repeat(width - filled)}] ${Math.floor(share * 100)}% ${took}`;
  }
}

/** Shows the progress of `work` until it has ended. */
export async function withProgress<T>(
  io: Pick<Io, "terminal" | "draw">,
  what: string,
  total: number | null,
  work: (progress: ProgressBar) => Promise<T>,
): Promise<T> {
  const progress = new ProgressBar(io, what, total);
  try {
    return await work(progress);
  } finally {
    progress.end();
  }
}
