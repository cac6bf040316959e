// The demo in this process.

import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { runDemo } from "../../../src/commands/demo.ts";
import { type Io } from "../../../src/commands/io.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Starts the demo without opening a browser. Resolves with the login link of its console when it is printed; the demo ends
 *  with the test. */
export async function startDemo(onTestFinished: (after: () => Promise<void>) => void) {
  let out = "";
  const abort = new AbortController();
  const io: Io = {
    out: (text) => void (out += `${text}\n`),
    err: (text) => void (out += `${text}\n`),
    write: () => undefined,
    env: {},
    signal: abort.signal,
    cwd: root,
    interactive: true,
    terminal: false,
    onHangup: () => undefined,
    onCrash: () => undefined,
  };
  const ended = runDemo({ open: false }, io);
  const end = async (): Promise<number> => {
    abort.abort();
    return ended;
  };
  onTestFinished(async () => void (await end()));
  await expect.poll(() => out, { timeout: 90_000 }).toMatch(/http\S+\/login\/\S+/);
  return { url: /http\S+\/login\/\S+/.exec(out)?.[0] ?? "", out: () => out, end };
}
