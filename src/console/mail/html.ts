// The HTML part of a stored mail, for a frame of the console. Any stranger can send it, so it is parsed and sanitized in a
// worker thread with limits on time and memory (worker.ts), and shown in a frame without scripts and network.

import { Worker } from "node:worker_threads";
import { after } from "../../ops/clock.ts";
import type { MailJob, MailResult } from "./worker.ts";

/** Larger mails are not shown as HTML; they can be downloaded. */
const mostBytes = 10_485_760;
/** Heap of the worker in megabytes. */
const heapMb = 160;

/** The worker file has the extension of this one: .ts from source, .js in the build. */
const source = new URL("./worker.ts", import.meta.url);
const workerFile = import.meta.url.endsWith(".ts") ? source : new URL(source.href.replace(/ts$/, "js"));

/** Returns the sanitized HTML part of a mail; null when it has none. Rejects when the mail takes longer than `limitMs`
 *  or too much memory, and when the HTML cannot be parsed. */
export function mailHtml(raw: Uint8Array, limitMs: number): Promise<string | null> {
  if (raw.length > mostBytes) return Promise.reject(new Error("the mail is too large to be shown as HTML"));
  return new Promise((resolve, reject) => {
    const worker = new Worker(workerFile, {
      workerData: { raw } satisfies MailJob,
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const end = (finish: () => void) => {
      lift();
      finish();
      void worker.terminate();
    };
    const lift = after(limitMs, () => end(() => reject(new Error("the mail takes too long to be shown as HTML"))));
    worker.once("message", (result: MailResult) =>
      end(() => ("html" in result ? resolve(result.html) : reject(new Error(result.problem)))),
    );
    worker.once("error", (error) => end(() => reject(error)));
    worker.once("exit", () => end(() => reject(new Error("the mail cannot be shown as HTML"))));
  });
}

/** The headers of the document of `frameDocument`. The policy applies also when it is opened outside of the frame. */
export const frameHeaders: Readonly<Record<string, string>> = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox",
  "x-frame-options": "SAMEORIGIN",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** Returns the document for the frame. `content` is sanitized HTML. */
export const frameDocument = (content: string): string => `<!doctype html>
<html><head><meta charset="utf-8"><title>HTML of a mail</title><style>
:root{color-scheme:light}body{margin:.75rem;background:#fff;color:#111;font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
table{border-collapse:collapse;max-width:100%}td,th{padding:.15rem .4rem;vertical-align:top}span[title]{color:#0b5cad;text-decoration:underline}
</style></head><body>${content}</body></html>`;
