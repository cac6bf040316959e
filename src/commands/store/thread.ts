// Work on SQLite files that blocks its thread, done in a worker thread, so that the command draws its progress meanwhile.

import { statSync } from "node:fs";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { copyStore, replaceStore, verifyStore } from "../../store/backup.ts";
import { finishFile } from "../../store/person/finish.ts";
import { countInFile } from "../../store/person/mentions.ts";
import type { ProgressBar } from "./progress.ts";

/** The functions that can be called. `verifyStore` and `copyStore` also report their progress. */
const calls = { copyStore, replaceStore, verifyStore, finishFile, countInFile };
type Calls = typeof calls;
type Given<Name extends keyof Calls> = Name extends "copyStore"
  ? [file: string, destination: string]
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
