// Ports for servers that cannot bind to port 0 themselves or that go away and come back, and waiting until somebody listens there.

import { randomInt } from "node:crypto";
import { connect, createServer } from "node:net";

// Below those that the system deals out by itself to whoever asks for any, or connects: a server of these tests that
// goes away for a while finds its port free again. Workers that run at the same time have ranges of their own.
const [lowest, each, ranges] = [10_000, 2000, 11];
const mine = lowest + (Number(process.env["VITEST_POOL_ID"] ?? 0) % ranges) * each;
let dealt = randomInt(each);

/** A port of 127.0.0.1 that nobody listens at, and that nobody else will get. */
export async function freePort(): Promise<number> {
  dealt = (dealt + 1) % each;
  const port = mine + dealt; // others ask meanwhile
  return (await isFree(port)) ? port : freePort();
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

/** Resolves when the port accepts connections; rejects after `withinMs` or when `failed` says why it never will. */
export async function listening(port: number, withinMs: number, failed: () => string | null): Promise<void> {
  for (const end = Date.now() + withinMs; ; ) {
    if (await accepts(port)) return;
    const reason = failed();
    if (reason !== null) throw new Error(reason);
    if (Date.now() > end) throw new Error(`nothing listens on port ${port} after ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
