// Progress of a long operation: a bar on the terminal of standard error after a second. The output of a command is on
// standard output, so that of --json stays valid; without a terminal nothing is shown. Work on SQLite files that blocks
// its thread is done in a worker thread, so that the command draws its progress in the meantime.

import { statSync } from "node:fs";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { durationText } from "../../domain/duration-text.ts";
import { systemClock } from "../../ops/clock.ts";
import { copyStore, replaceStore, verifyStore } from "../../store/backup.ts";
import { finishFile } from "../../store/person/finish.ts";
import { countInFile } from "../../store/person/mentions.ts";
import type { Io } from "../io.ts";

const width = 24;

type Display = Pick<Io, "terminal" | "draw" | "timing">;

export class ProgressBar {
  readonly #io: Display;
  readonly #what: string;
  readonly #total: number;
  readonly #started = systemClock.monotonic();
  readonly #ended = new AbortController();
  #finished = 0;
  #part = "";
  #measure = () => 0;

  /** Starts the display. `total` is in any unit. */
  constructor(io: Display, what: string, total: number) {
    this.#io = io;
    this.#what = what;
    this.#total = total;
    if (io.terminal) void this.#show();
  }

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
    const { progress: interval, progressAfter } = this.#io.timing.commands;
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
    if (this.#total === 0) return `${text} ${took}`;
    const share = Math.min(1, this.#finished / this.#total);
    const filled = Math.floor(share * width);
    return `${text} [${"#".repeat(filled)}${".".repeat(width - filled)}] ${Math.floor(share * 100)}% ${took}`;
  }
}

/** Shows the progress of `work` until it has ended. */
export async function withProgress<T>(
  io: Display,
  what: string,
  total: number,
  work: (progress: ProgressBar) => Promise<T>,
): Promise<T> {
  const progress = new ProgressBar(io, what, total);
  try {
    return await work(progress);
  } finally {
    progress.end();
  }
}

/** The functions that can be called. `verifyStore` and `copyStore` also report their progress. */
const calls = { copyStore, replaceStore, verifyStore, finishFile, countInFile };
type Calls = typeof calls;
type Given<Name extends keyof Calls> = Name extends "copyStore"
  ? [file: string, destination: string, platform: string | null, busyMs: number]
  : Name extends "verifyStore"
    ? [file: string]
    : Parameters<Calls[Name]>;

interface ThreadTask {
  readonly call: keyof Calls;
  readonly given: readonly unknown[];
}

type ThreadMessage =
  | { readonly part: string; readonly share: number }
  | { readonly result: unknown }
  | { readonly error: { readonly message: string; readonly code?: string; readonly path?: string } };

/** Calls a function in a worker thread. Rejects with its error, which keeps its `code` and `path`. */
export function inThread<Name extends keyof Calls>(
  call: Name,
  given: Given<Name>,
  progress: Pick<ProgressBar, "part">,
): Promise<ReturnType<Calls[Name]>> {
  return new Promise((resolve, reject) => {
    const task: ThreadTask = { call, given };
    const worker = new Worker(new URL(import.meta.url), { workerData: task });
    worker.on("message", (message: ThreadMessage) => {
      if ("result" in message) resolve(message.result as ReturnType<Calls[Name]>);
      else if ("error" in message) reject(Object.assign(new Error(message.error.message), message.error));
      else progress.part(message.part, message.share);
    });
    worker.once("error", reject);
    worker.once("exit", () => reject(new Error(`the thread of ${call} ended early`)));
  });
}

/** How much of `file` is written when its size will be about `of` bytes: 0 to 1. */
export const writtenShare = (file: string, of: number): number =>
  Math.min(1, (statSync(file, { throwIfNoEntry: false })?.size ?? 0) / Math.max(1, of));

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  const { call, given } = workerData as ThreadTask;
  const report = (part: string, share: number) => port.postMessage({ part, share } satisfies ThreadMessage);
  try {
    const work = calls[call] as (...all: unknown[]) => unknown;
    port.postMessage({ result: work(...given, report) } satisfies ThreadMessage);
  } catch (error) {
    const { message, code, path } = error as NodeJS.ErrnoException;
    port.postMessage({
      error: { message, ...(code !== undefined && { code }), ...(path !== undefined && { path }) },
    } satisfies ThreadMessage);
  }
}
