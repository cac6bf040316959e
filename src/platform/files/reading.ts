// Extracts the text of an uploaded document. Documents are untrusted input to large parsers. Each is parsed
// by its own process, with limits on memory, processor time, duration and output. The number of processes
// is limited, and so is the queue before them.

import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { after } from "../../ops/clock.ts";
import { type Format, formatOf } from "./text-of.ts";

/** The parser is in the same directory and has the same extension: `.ts` when run from source, `.js`
 *  after the build. */
const source = new URL("./parser.ts", import.meta.url);
const parserFile = fileURLToPath(import.meta.url.endsWith(".ts") ? source : new URL(source.href.replace(/ts$/, "js")));

/** Resource limits of one document, and the number of documents that are parsed or queued at a time. */
export interface ReadingLimits {
  /** Resident set of the whole process in MiB. Node.js itself takes about 80. */
  readonly memoryMb: number;
  readonly cpuMs: number;
  /** Milliseconds from the start of the process; time in the queue does not count. */
  readonly wallMs: number;
  /** Maximum characters of text; longer text is truncated. */
  readonly maxLength: number;
  readonly processes: number;
  /** Maximum number of queued documents; more are refused as `busy`. */
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

/** The request to the parser's process. */
export type ParserJob = { readonly format: Format } & Pick<ReadingLimits, "memoryMb" | "cpuMs" | "maxLength">;
/** The response of the parser's process. */
export type ParserResult = { readonly text: string } | { readonly error: string };

/** `failed`: the document is permanently unreadable; the reason is a sentence for the person who
 *  uploaded it. `busy`: nothing was attempted, retry later. `stopped`: the signal aborted. */
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

  /** `signal`: shutdown. Ends every process; running and queued reads resolve as `stopped`. */
  constructor(signal: AbortSignal, limits: Partial<ReadingLimits> = {}) {
    this.#limits = { ...standardLimits, ...limits };
    this.#signal = signal;
    signal.addEventListener("abort", () => {
      for (const enter of this.#waiting.splice(0)) enter();
    });
  }

  /** True when `read` would return `busy`. */
  get full(): boolean {
    return this.#waiting.length >= this.#limits.queue;
  }

  /** Reads one document; resolves when its process has exited. `load` is called when the document leaves
   *  the queue, so that queued documents take no memory. It returns undefined when the document was
   *  deleted. Never rejects, unless `load` throws. */
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
      // Passes the slot to the next document in the queue, or frees it.
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

  async #inProcess(format: Format, bytes: Uint8Array, stopped: AbortSignal): Promise<ParserResult> {
    const { memoryMb, cpuMs, wallMs, maxLength } = this.#limits;
    const job: ParserJob = { format, memoryMb, cpuMs, maxLength };
    // The process gets neither secrets of the environment nor write access, because a document may exploit its parser.
    const child = spawn(
      process.execPath,
      ["--permission", "--allow-worker", "--allow-fs-read=*", parserFile, JSON.stringify(job)],
      { stdio: ["pipe", "pipe", "ignore", "ipc"], env: {}, windowsHide: true },
    );
    const { promise, resolve } = Promise.withResolvers<ParserResult>();
    let result: ParserResult | null = null;
    const kill = (error: string) => {
      result ??= { error };
      child.kill("SIGKILL");
    };
    const stop = () => kill("stopped");
    stopped.addEventListener("abort", stop, { once: true });
    const lift = after(wallMs, () => kill(`parsing it takes longer than ${wallMs / 1000} s`));
    const chunks: Buffer[] = [];
    let size = 0;
    // JSON takes at most six bytes for a character.
    const maxBytes = maxLength * 6 + 4096;
    child.stdout?.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) kill("its text is too long");
      else chunks.push(chunk);
    });
    child.on("error", (error) => {
      result ??= { error: `its parser cannot be started: ${error.message}` };
      if (child.pid === undefined) resolve(result);
    });
    child.on("close", () => resolve(result ?? parsedOf(Buffer.concat(chunks))));
    // If the system still runs out of memory, the kernel kills the parser before the daemon (Linux; best effort).
    if (child.pid !== undefined) void writeFile(`/proc/${child.pid}/oom_score_adj`, "1000").catch(() => undefined);
    child.stdin?.on("error", () => undefined); // the parser exited before reading all input
    child.stdin?.end(bytes);
    try {
      return await promise;
    } finally {
      stopped.removeEventListener("abort", stop);
      lift();
    }
  }
}

const failed = (reason: string) => ({ kind: "failed", reason }) as const;

/** Parses the output of a process that has exited. A crashed process has no valid output. */
function parsedOf(output: Buffer): ParserResult {
  try {
    const { text, error } = JSON.parse(output.toString("utf8")) as { text?: unknown; error?: unknown };
    if (typeof text === "string") return { text };
    if (typeof error === "string") return { error };
  } catch {
    // The output is truncated or empty.
  }
  return { error: "its parser failed" };
}
