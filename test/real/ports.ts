// Ports for servers that cannot bind to port 0 themselves, and waiting until somebody listens there.

import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:net";

/** A port of 127.0.0.1 that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
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
