// The process that parses one document and exits. The main thread enforces the limits. A parser that loops or allocates
// without end never returns to its own event loop, so it runs in a worker thread of this process.
//
// stdin: the document's bytes. argv[2]: its format and limits, as JSON (`ParserJob`). stdout: one JSON object,
// `ParserResult`. The IPC channel only detects the end of the parent: it closes when the parent exits or is
// killed, and then this process exits.

import { buffer } from "node:stream/consumers";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { systemClock } from "../../ops/clock.ts";
import type { ParserJob, ParserResult } from "./reading.ts";
import { textOf } from "./text-of.ts";

/** Interval between two checks of the limits in milliseconds. Memory grows by some 50 MB in that time in
 *  the worst case. */
const checkMs = 20;
const mebibyte = 1024 * 1024;

async function supervise(job: ParserJob): Promise<void> {
  process.on("disconnect", () => process.exit(1));
  if (!process.connected) process.exit(1);
  const bytes = await buffer(process.stdin);
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { job, bytes },
    resourceLimits: { maxOldGenerationSizeMb: job.memoryMb, stackSizeMb: 4 },
    stdout: true,
    stderr: true,
  });
  const ended = new AbortController();
  const end = (parsed: ParserResult) => {
    if (ended.signal.aborted) return;
    ended.abort();
    void worker.terminate();
    process.stdout.write(JSON.stringify(parsed), () => process.exit(0));
  };
  const tooMuchMemory = { error: `parsing it takes more than ${job.memoryMb} MB of memory` };
  worker.on("message", (parsed: ParserResult) => end(parsed));
  worker.on("error", (error: NodeJS.ErrnoException) =>
    end(error.code === "ERR_WORKER_OUT_OF_MEMORY" ? tooMuchMemory : { error: error.message }),
  );
  worker.on("exit", () => end({ error: "the parser ended without a result" }));
  for (; !ended.signal.aborted; await systemClock.sleep(checkMs, ended.signal)) {
    const { user, system } = process.cpuUsage();
    if (process.memoryUsage.rss() > job.memoryMb * mebibyte) end(tooMuchMemory);
    else if ((user + system) / 1000 > job.cpuMs)
      end({ error: `parsing it takes more than ${job.cpuMs / 1000} s of processor time` });
  }
}

async function parse({ job, bytes }: { readonly job: ParserJob; readonly bytes: Uint8Array }): Promise<ParserResult> {
  try {
    return { text: (await textOf(job.format, bytes, job.maxLength)).slice(0, job.maxLength) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

if (isMainThread) await supervise(JSON.parse(process.argv[2] ?? "null") as ParserJob);
else parentPort?.postMessage(await parse(workerData as { job: ParserJob; bytes: Uint8Array }));
