// Loaded into the daemon before anything else (`node --import`): says in a line of its log where it listens, so that a
// daemon may take any free port, another one in each life.

import { subscribe } from "node:diagnostics_channel";
import { writeSync } from "node:fs";
import type { AddressInfo, Server } from "node:net";
import { isMainThread } from "node:worker_threads";

if (isMainThread)
  subscribe("tracing:net.server.listen:asyncEnd", (message) => {
    const { port } = (message as { server: Server }).server.address() as AddressInfo;
    writeSync(2, `${JSON.stringify({ level: "info", message: "listening", port })}\n`);
  });
