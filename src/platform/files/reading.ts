// The text of an uploaded document. Documents are untrusted input to large parsers: each is parsed by a process of its own
// with limits on memory, processor time, duration and output. Few run at a time, and the queue before them is bounded.

import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { type Format, formatOf } from "./text-of.ts";

/** Beside this file, and with the same ending: the source runs as it is, what was built is JavaScript. */
const source = new URL("./parser.ts", import.meta.url);
const parserFile = fileURLToPath(
  import.meta.url.endsWith(".ts") ? source : new URL(source.href.replace(/ts$/, "js")),
);

/** What one document may use, and how many are parsed or wait at a time. */
export interface ReadingLimits {
  /** Of the whole process (its resident set), in MiB. Node.js itself takes about 80. */
  readonly memoryMb: number;
  readonly cpuMs: number;
  /** From the start of its process; time in the queue does not count. */
  readonly wallMs: number;
  /** Characters of text; the rest is cut off. */
  readonly maxLength: number;
  readonly processes: number;
  /** Documents that wait for a process; more are refused as `busy`. */
  readonly queue: number;
}

const standardLimits: ReadingLimits = {
  memoryMb: 512,
  cpuMs: 30_000,
  wallMs: 60_000,
  maxLength: 5_000_000,
  processes: 2,
  queue: 32,
};

/** What the parser's process is asked for. */
export type Job = { readonly format: Format } & Pick<ReadingLimits, "memoryMb" | "cpuMs" | "maxLength">;
/** What it answers. */
export type Parsed = { readonly text: string } | { readonly error: string };

/** `failed`: the document cannot be read, now or later; the reason is a sentence for the person who uploaded it.
 *  `busy`: nothing was tried, try again later. `stopped`: the signal aborted. */
export type ReadDocument =
  | { readonly kind: "read"; readonly text: string }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "busy" }
  | { readonly kind: "stopped" };

export class DocumentReader {
  readonly #limits: ReadingLimits;
  readonly #signal: AbortSignal;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** `signal`: shutdown. Ends every process; reads that are under way or wait resolve as `stopped`. */
  constructor(signal: AbortSignal, limits: Partial<ReadingLimits> = {}) {
    this.#limits = { ...standardLimits, ...limits };
    this.#signal = signal;
    signal.addEventListener("abort", () => {
      for (const enter of this.#waiting.splice(0)) enter();
    });
  }

  /** True when `read` would answer `busy`. */
  get full(): boolean {
    return this.#waiting.length >= this.#limits.queue;
  }

  /** Reads one document; resolves when its process has exited. `load` is called when its turn comes, so that documents
   *  in the queue take no memory; undefined from it means that the document is gone. Never rejects, unless `load` throws. */
  async read(
    fileName: string,
    load: () => Uint8Array | undefined,
    signal: AbortSignal = this.#signal,
  ): Promise<ReadDocument> {
    if (this.#running >= this.#limits.processes) {
      if (this.full) return { kind: "busy" };
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running += 1;
    try {
      const stopped = AbortSignal.any([signal, this.#signal]);
      if (stopped.aborted) return { kind: "stopped" };
      const bytes = load();
      if (!bytes) return { kind: "failed", reason: "it was removed" };
      return await this.#parse(fileName, bytes, stopped);
    } finally {
      // The place goes to the next in the queue, or is free.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }

  async #parse(fileName: string, bytes: Uint8Array, stopped: AbortSignal): Promise<ReadDocument> {
    const format = formatOf(fileName, bytes);
    if (format === null) return failed("not a text, Markdown, HTML, PDF or Word (docx) document");
    const parsed = await this.#inProcess(format, bytes, stopped);
    if (stopped.aborted) return { kind: "stopped" };
    if ("error" in parsed) return failed(`it cannot be read: ${parsed.error.slice(0, 300)}`);
    const text = parsed.text.slice(0, this.#limits.maxLength).trim();
    return text === "" ? failed("there is no text in it") : { kind: "read", text };
  }

  async #inProcess(format: Format, bytes: Uint8Array, stopped: AbortSignal): Promise<Parsed> {
    const { memoryMb, cpuMs, wallMs, maxLength } = this.#limits;
    const job: Job = { format, memoryMb, cpuMs, maxLength };
    // Neither secrets of the environment nor write access: a document may take over its parser.
    const child = spawn(
      process.execPath,
      ["--permission", "--allow-worker", "--allow-fs-read=*", parserFile, JSON.stringify(job)],
      { stdio: ["pipe", "pipe", "ignore", "ipc"], env: {}, windowsHide: true },
    );
    const { promise, resolve } = Promise.withResolvers<Parsed>();
    let verdict: Parsed | null = null;
    const kill = (error: string) => {
      verdict ??= { error };
      child.kill("SIGKILL");
    };
    const stop = () => kill("stopped");
    stopped.addEventListener("abort", stop, { once: true });
    const late = AbortSignal.timeout(wallMs);
    const onLate = () => kill(`parsing it takes longer than ${wallMs / 1000} s`);
    late.addEventListener("abort", onLate, { once: true });
    const chunks: Buffer[] = [];
    let size = 0;
    // Six bytes a character is the most that JSON takes.
    const maxBytes = maxLength * 6 + 4096;
    child.stdout?.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) kill("its text is too long");
      else chunks.push(chunk);
    });
    child.on("error", (error) => {
      verdict ??= { error: `its parser cannot be started: ${error.message}` };
      if (child.pid === undefined) resolve(verdict);
    });
    child.on("close", () => resolve(verdict ?? parsedOf(Buffer.concat(chunks))));
    // Where memory runs out all the same, the kernel ends the parser before the daemon (Linux; best effort).
    if (child.pid !== undefined)
      void writeFile(`/proc/${child.pid}/oom_score_adj`, "1000").catch(() => undefined);
    child.stdin?.on("error", () => undefined); // it ended before it had read everything
    child.stdin?.end(bytes);
    try {
      return await promise;
    } finally {
      stopped.removeEventListener("abort", stop);
      late.removeEventListener("abort", onLate);
    }
  }
}

const failed = (reason: string) => ({ kind: "failed", reason }) as const;

/** The answer of a process that has ended; one that crashed has given none. */
function parsedOf(output: Buffer): Parsed {
  try {
    const { text, error } = JSON.parse(output.toString("utf8")) as { text?: unknown; error?: unknown };
    if (typeof text === "string") return { text };
    if (typeof error === "string") return { error };
  } catch {
    // Cut off, or empty.
  }
  return { error: "its parser failed" };
}
