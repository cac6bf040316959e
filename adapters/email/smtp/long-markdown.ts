// Renders long Markdown in a worker thread with a time and a memory limit. This file is the worker's entry point as well.

import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import type { Clock, Json } from "bridgehead/contract";
import type { EmailTiming } from "../timing.ts";
import { markdownLimit, type Rendered, renderMarkdown } from "./compose.ts";

const heapLimitMb = 64;

const entry = new URL(import.meta.url);
/** A worker does not inherit the condition under which the contract resolves to its source. */
const execArgv = entry.pathname.endsWith(".ts") ? ["--conditions=source"] : [];

if (!isMainThread && isRenderJob(workerData)) parentPort?.postMessage(renderMarkdown(workerData.markdown), []);

/** Tells a render job from the `workerData` of other worker threads that import this module. */
function isRenderJob(data: unknown): data is { readonly markdown: string } {
  return typeof data === "object" && data !== null && "markdown" in data;
}

/** Renders Markdown that `isLong`. Returns null for a text that `compose` sends as plain text, and when a limit is exceeded
 *  or the signal aborts. Starts one worker per long response, because these are rare. */
export async function prepare(
  { clock, timing }: { readonly clock: Clock; readonly timing: Pick<EmailTiming, "render"> },
  markdown: string,
  signal: AbortSignal,
  source = entry,
): Promise<Json | null> {
  const text = markdown.trim();
  if (text.length > markdownLimit || signal.aborted) return null;
  const worker = new Worker(source, {
    name: "markdown",
    execArgv,
    env: {},
    workerData: { markdown: text },
    resourceLimits: { maxOldGenerationSizeMb: heapLimitMb, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 },
  });
  const done = new AbortController();
  try {
    return await Promise.race([
      new Promise<Json | null>((resolve) => {
        worker.once("message", (rendered: Rendered) => resolve({ ...rendered }));
        worker.once("error", () => resolve(null));
        worker.once("exit", () => resolve(null));
      }),
      clock.sleep(timing.render, AbortSignal.any([signal, done.signal])).then(() => null),
    ]);
  } finally {
    done.abort();
    await worker.terminate();
  }
}
