// Reads one document and says its text, or why it cannot.

import { parentPort, workerData } from "node:worker_threads";
import { type Format, textOf } from "./text-of.ts";

const { format, bytes } = workerData as { readonly format: Format; readonly bytes: Uint8Array };
const say = (said: { readonly text: string } | { readonly error: string }) =>
  parentPort?.postMessage(said, []);
try {
  say({ text: await textOf(format, bytes) });
} catch (error) {
  say({ error: error instanceof Error ? error.message : String(error) });
}
