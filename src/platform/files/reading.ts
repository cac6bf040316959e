// A document's text, read in a thread of its own that is ended when it takes too long or too much memory.

import { Worker } from "node:worker_threads";
import { type Format, formatOf } from "./text-of.ts";

/** Beside this file, and with the same ending: the source runs as it is, what was built is JavaScript. */
const source = new URL("./worker.ts", import.meta.url);
const workerFile = import.meta.url.endsWith(".ts") ? source : new URL(source.href.replace(/ts$/, "js"));

const withinMs = 60_000;
/** Longer ones are cut: nobody asks about the millionth word. */
const maxTextLength = 5_000_000;

export type ReadDocument =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: string };

/** Never rejects. The reason is a sentence for the person who uploaded it. */
export async function readDocument(
  fileName: string,
  bytes: Uint8Array,
  signal: AbortSignal,
): Promise<ReadDocument> {
  const format = formatOf(fileName, bytes);
  if (format === null)
    return { ok: false, reason: "not a text, Markdown, HTML, PDF or Word (docx) document" };
  const said = await inThread(format, bytes, AbortSignal.any([signal, AbortSignal.timeout(withinMs)]));
  if (!said.ok) return said;
  const text = said.text.slice(0, maxTextLength).trim();
  return text === "" ? { ok: false, reason: "there is no text in it" } : { ok: true, text };
}

function inThread(format: Format, bytes: Uint8Array, signal: AbortSignal): Promise<ReadDocument> {
  return new Promise((resolve) => {
    const worker = new Worker(workerFile, {
      workerData: { format, bytes },
      resourceLimits: { maxOldGenerationSizeMb: 512 },
    });
    const end = (read: ReadDocument) => {
      signal.removeEventListener("abort", late);
      resolve(read);
      void worker.terminate();
    };
    const late = () => end({ ok: false, reason: "reading it took too long" });
    signal.addEventListener("abort", late, { once: true });
    worker.on("message", (said: { readonly text?: string; readonly error?: string }) =>
      end(
        said.text === undefined
          ? { ok: false, reason: `it cannot be read: ${said.error ?? "no reason"}` }
          : { ok: true, text: said.text },
      ),
    );
    worker.on("error", (error) => end({ ok: false, reason: `it cannot be read: ${error.message}` }));
    worker.on("exit", () => end({ ok: false, reason: "it cannot be read" }));
    if (signal.aborted) late();
  });
}
