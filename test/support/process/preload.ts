// Loaded into the daemon before anything else (`node --import`).
//
// KILL_AT="<point>[@<channel>]:<before|after>:<n>" ends the process by SIGKILL at the n-th publication of one point in one
// phase. Its last words name the drafts between crossing and recorded outcome: only for those may the relay see a second copy; and
// those whose attempt may have been recorded (`begun`): only these may be of unknown outcome.
// With `:armed` at the end nothing counts before SIGUSR2, which is answered with a line "armed": what was done until then has
// been done in peace. Each thread counts for itself.
//
// HOLD_AT="<point>:<before|after>:<n>" keeps the thread at the n-th publication until the file HOLD_UNTIL exists.
//
// SAY_PORT=1 logs the port on which the process listens, so that each process may use any free port.

import { subscribe } from "node:diagnostics_channel";
import { existsSync, writeSync } from "node:fs";
import type { AddressInfo, Server } from "node:net";
import { isMainThread } from "node:worker_threads";

interface Told {
  readonly phase: "before" | "after";
  readonly channel?: string;
  readonly draft?: string;
}

const [where = "", phase = "", count = "1", armed] = (process.env["KILL_AT"] ?? "").split(":");
const [name = "", channel] = where.split("@");

if (name !== "") {
  const crossed = new Set<string>();
  const begun = new Set<string>();
  subscribe("bridgehead:send.cross", (message) => {
    const { phase: now, draft } = message as Told;
    if (now === "before" && draft !== undefined) crossed.add(draft);
  });
  subscribe("bridgehead:send.record", (message) => {
    const { phase: now, draft } = message as Told;
    if (now === "before" && draft !== undefined) begun.add(draft);
  });
  subscribe("bridgehead:outcome.commit", (message) => {
    const { phase: now, draft } = message as Told;
    if (now !== "after" || draft === undefined) return;
    crossed.delete(draft);
    begun.delete(draft);
  });
  const say = (words: object) => writeSync(2, `${JSON.stringify(words)}\n`);
  let counts = armed === undefined;
  if (!counts && isMainThread)
    process.once("SIGUSR2", () => {
      counts = true;
      say({ level: "info", message: "armed" });
    });
  let left = Number(count);
  subscribe(`bridgehead:${name}`, (message) => {
    const told = message as Told;
    if (!counts || told.phase !== phase || (channel !== undefined && told.channel !== channel)) return;
    left -= 1;
    if (left > 0) return;
    say({ level: "fatal", message: "killed", crossed: [...crossed], begun: [...begun] });
    process.kill(process.pid, "SIGKILL");
  });
}

const [heldPoint = "", heldPhase = "", heldCount = "1"] = (process.env["HOLD_AT"] ?? "").split(":");

if (heldPoint !== "") {
  let left = Number(heldCount);
  subscribe(`bridgehead:${heldPoint}`, (message) => {
    if ((message as Told).phase !== heldPhase || --left !== 0) return;
    writeSync(2, `${JSON.stringify({ level: "info", message: "held" })}\n`);
    const pause = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(process.env["HOLD_UNTIL"] ?? "")) Atomics.wait(pause, 0, 0, 10);
  });
}

if (process.env["SAY_PORT"] === "1" && isMainThread)
  subscribe("tracing:net.server.listen:asyncEnd", (message) => {
    const { port } = (message as { server: Server }).server.address() as AddressInfo;
    writeSync(2, `${JSON.stringify({ level: "info", message: "listening", port })}\n`);
  });
