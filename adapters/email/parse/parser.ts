// Parses messages in a worker thread, with limits on time and memory. The worker is replaced when a message makes it hang
// or run out of memory; the other messages are not affected.

import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import type { Clock } from "bridgehead/contract";
import type { EventRequest } from "../events.ts";
import type { EmailTiming } from "../timing.ts";
import type { ParseContext, ParseJob, ParseResponse, ParseResult, ReadResult } from "./mail.ts";

export interface ParserOptions {
  /** JavaScript heap of a worker in megabytes. Default 256. */
  readonly maxHeapMb?: number;
  readonly clock: Clock;
  readonly timing: Pick<EmailTiming, "parse" | "parserStart" | "senderCheck" | "parserIdle">;
}

interface ParseTask extends Omit<ParseJob, "id"> {
  readonly resolve: (result: ParseResult | ReadResult) => void;
  readonly fail: (error: Error) => void;
  /** True when the message was in a worker that failed together with others. It is retried alone, to
   *  find the one that causes the failure. */
  suspect: boolean;
  /** Monotonic ms of the timeout. The time counts only while the worker processes the message. */
  deadline: number;
  /** True when the message is parsed and its sender is being checked. */
  checking: boolean;
}

/** Limits on messages sent to the worker in advance, so that it never waits for the main thread. */
const maxAhead = 32;
const maxAheadBytes = 32_000_000;
/** How often the timeouts are checked in the time of one. */
const looks = 4;

/** The worker file is in this directory and has the same extension: .ts from source, .js in the build. */
const source = new URL("./worker.ts", import.meta.url);
const workerFile = import.meta.url.endsWith(".ts") ? source : new URL(source.href.replace(/ts$/, "js"));

/** The worker's environment: empty, so that it holds no secrets, except for the daemon's compile cache. Without the cache
 *  a worker takes two to three times the CPU time to start. */
function environment(): NodeJS.ProcessEnv {
  // Node.js returns the folder of this version inside the configured one.
  const cache = getCompileCacheDir();
  return cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) };
}

/** One worker thread and its queue of messages. It starts with the first message and ends when idle. */
export class Parser {
  readonly #limits: Required<ParserOptions>;
  readonly #waiting: ParseTask[] = [];
  readonly #working = new Map<number, ParseTask>();
  readonly #outbox: ParseJob[] = [];
  #aheadBytes = 0;
  #lastId = 0;
  #worker: Worker | null = null;
  /** False until the worker has started. */
  #isReady = false;
  #idleSince = 0;
  #closed = false;
  /** Aborted at the end of the worker. */
  #ended = new AbortController();

  constructor({ clock, timing, maxHeapMb = 256 }: ParserOptions) {
    this.#limits = { clock, timing, maxHeapMb };
  }

  /** Parses one message. `raw` is copied; the caller may keep and use it. Rejects only when the signal
   *  aborts, the parser is closed or its worker does not start; a malformed message returns a result. */
  parse(raw: Uint8Array, context: ParseContext, signal?: AbortSignal): Promise<ParseResult> {
    return this.#submit<ParseResult>({ raw, context, request: null }, signal);
  }

  /** Like `parse`, and converts the message into events. */
  read(raw: Uint8Array, context: ParseContext, request: EventRequest, signal: AbortSignal): Promise<ReadResult> {
    return this.#submit<ReadResult>({ raw, context, request }, signal);
  }

  #submit<Result>(job: Omit<ParseJob, "id">, signal: AbortSignal | undefined): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.#closed) throw new Error("parse mail: the parser is closed");
      signal?.throwIfAborted();
      const abort = () => {
        const at = this.#waiting.indexOf(task);
        if (at >= 0) this.#waiting.splice(at, 1);
        reject(signal?.reason as Error);
      };
      const done = () => signal?.removeEventListener("abort", abort);
      const task: ParseTask = {
        ...job,
        resolve: (result) => {
          done();
          resolve(result as Result); // the worker responds in the form that was requested
        },
        fail: (error) => {
          done();
          reject(error);
        },
        suspect: false,
        deadline: 0,
        checking: false,
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.#waiting.push(task);
      this.#fill();
    });
  }

  /** Ends the worker. Pending requests are rejected. */
  async close(): Promise<void> {
    this.#closed = true;
    const tasks = [...this.#working.values(), ...this.#waiting.splice(0)];
    this.#working.clear();
    for (const task of tasks) task.fail(new Error("parse mail: the parser was closed"));
    await this.#end();
  }

  /** Sends queued messages to the worker up to its limits. */
  #fill(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const alone = next.suspect || [...this.#working.values()].some((task) => task.suspect);
      if (this.#working.size > 0 && (alone || this.#isFull(next))) break;
      this.#waiting.shift();
      this.#give(next);
    }
    if (this.#working.size > 0) this.#worker?.ref();
  }

  #isFull(next: ParseTask): boolean {
    return this.#working.size >= maxAhead || this.#aheadBytes + next.raw.byteLength > maxAheadBytes;
  }

  #give(task: ParseTask): void {
    const fresh = this.#worker === null;
    if (fresh) this.#start();
    const id = ++this.#lastId;
    this.#working.set(id, task);
    this.#aheadBytes += task.raw.byteLength;
    const { clock, timing } = this.#limits;
    task.deadline = clock.monotonic() + timing.parse + (fresh ? timing.parserStart : 0);
    // Transfers a copy of exactly these bytes. A structured clone would copy the whole underlying buffer.
    const { context, request } = task;
    this.#outbox.push({ id, raw: new Uint8Array(task.raw), context, request });
    if (this.#outbox.length === 1) queueMicrotask(() => this.#flush());
  }

  /** Sends all messages of one event-loop turn as one batch. */
  #flush(): void {
    const jobs = this.#outbox.splice(0);
    if (this.#worker === null || jobs.length === 0) return;
    this.#worker.postMessage(
      jobs,
      jobs.map((job) => job.raw.buffer as ArrayBuffer),
    );
  }

  #start(): void {
    this.#idleSince = this.#limits.clock.monotonic();
    const worker = new Worker(workerFile, {
      name: "mail-parser",
      workerData: "mail-parser",
      execArgv: [],
      env: environment(),
      resourceLimits: {
        maxOldGenerationSizeMb: this.#limits.maxHeapMb,
        maxYoungGenerationSizeMb: 32,
        stackSizeMb: 4,
      },
    });
    worker.on("message", (answer: ParseResponse) => this.#take(worker, answer));
    worker.on("error", (error: NodeJS.ErrnoException) => {
      const memory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
      this.#broken(worker, memory ? "too-big-in-memory" : "malformed", error.message.slice(0, 300));
    });
    worker.on("exit", () => this.#broken(worker, "malformed", "the parser ended unexpectedly"));
    this.#worker = worker;
    this.#isReady = false;
    this.#ended = new AbortController();
    void this.#watch(worker);
  }

  #take(worker: Worker, answer: ParseResponse): void {
    if (worker !== this.#worker) return;
    if (answer.kind === "ready") {
      this.#isReady = true;
      return this.#startNextClock();
    }
    const task = this.#working.get(answer.id);
    if (task === undefined) return;
    if (answer.kind === "checking") {
      task.checking = true;
      const { clock, timing } = this.#limits;
      task.deadline = clock.monotonic() + timing.parse + timing.senderCheck;
    } else {
      this.#working.delete(answer.id);
      this.#aheadBytes -= task.raw.byteLength;
      task.resolve(answer.result);
    }
    this.#startNextClock();
    this.#fill();
    if (this.#working.size > 0) return;
    this.#idleSince = this.#limits.clock.monotonic();
    worker.unref();
  }

  /** The worker continues with the oldest message it has not read: that message's timeout starts now. */
  #startNextClock(): void {
    for (const task of this.#working.values()) {
      if (task.checking) continue;
      task.deadline = this.#limits.clock.monotonic() + this.#limits.timing.parse;
      return;
    }
  }

  /** Runs as long as the worker. Ends it when a message exceeds its timeout, or when the worker has been
   *  idle too long. */
  async #watch(worker: Worker): Promise<void> {
    const { clock, timing } = this.#limits;
    while (worker === this.#worker) {
      const now = clock.monotonic();
      const due = this.#working.size > 0 ? this.#earliestDeadline() : this.#idleSince + timing.parserIdle;
      if (due > now) {
        // Messages that arrive in the meantime do not end the wait: a timer for each would cost more than these looks.
        const wait = Math.min(due - now, timing.parse / looks);
        await clock.sleep(wait, this.#ended.signal);
        // While this thread was busy, answers of the worker have waited as well.
        const late = Math.max(0, clock.monotonic() - now - wait);
        for (const task of this.#working.values()) task.deadline += late;
      } else if (this.#working.size > 0) {
        this.#broken(worker, "too-slow", `reading it took longer than ${timing.parse} ms`);
      } else {
        await this.#end();
      }
    }
  }

  /** Covers the messages whose timeout is running: those that wait for DNS and the first one still to be read. */
  #earliestDeadline(): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (const task of this.#working.values()) {
      earliest = Math.min(earliest, task.deadline);
      if (!task.checking) break;
    }
    return earliest;
  }

  /** Handles a worker that failed or must end. When it processed a single message, that message caused
   *  the failure; several messages are retried one by one. No message causes the end of a worker that was not
   *  ready. */
  #broken(worker: Worker, code: "too-slow" | "too-big-in-memory" | "malformed", reason: string): void {
    if (worker !== this.#worker) return;
    void this.#end();
    const tasks = [...this.#working.values()];
    this.#working.clear();
    this.#outbox.length = 0;
    this.#aheadBytes = 0;
    if (!this.#isReady && code !== "too-slow") {
      const error = new Error(`the mail parser does not start: ${reason}`);
      for (const task of tasks) task.fail(Object.assign(error, { parserFailed: true }));
    } else if (tasks.length === 1) {
      tasks[0]?.resolve({ ok: false, code, reason });
    } else {
      for (const task of tasks) {
        task.suspect = true;
        task.checking = false;
      }
      this.#waiting.unshift(...tasks);
    }
    if (!this.#closed) this.#fill();
  }

  async #end(): Promise<void> {
    const worker = this.#worker;
    this.#worker = null;
    this.#ended.abort(null);
    await worker?.terminate();
  }
}

let shared: { parser: Parser; users: number } | null = null;

/** Returns the shared parser of the process, with the durations of the first caller. Every caller closes the handle it received; the last close
 *  ends the worker. */
export function sharedParser(
  options: Pick<ParserOptions, "clock" | "timing">,
): Pick<Parser, "parse" | "read" | "close"> {
  shared ??= { parser: new Parser(options), users: 0 };
  const used = shared;
  used.users++;
  let open = true;
  const closed = () => Promise.reject(new Error("parse mail: the parser is closed"));
  return {
    parse: (...message) => (open ? used.parser.parse(...message) : closed()),
    read: (...message) => (open ? used.parser.read(...message) : closed()),
    async close() {
      if (!open) return;
      open = false;
      if (--used.users > 0) return;
      if (shared === used) shared = null;
      await used.parser.close();
    },
  };
}
