// Keeps the memory of an idle daemon small. V8 would optimize the code of the startup, which runs once, and keeps garbage
// until it needs the space, which an idle daemon never does.

import { flushCompileCache } from "node:module";
import { performance } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock } from "bridgehead/contract";

/** Share of time in which the event loop may be busy. */
const quietShare = 0.1;

/** Switches V8's optimizing compilers off until `allowOptimization`: for the startup they cost 8 MB and gain nothing. Until
 *  then the young generation does not grow either, which would take 22 MB until the first collection of an idle daemon.
 *  undici's HTTP parser, the only WebAssembly, is never optimized: compiling it costs 14 MB, and the gain per response is
 *  below what can be measured. Called before the daemon's code is loaded. */
export function deferOptimization(): void {
  for (const compiler of ["turbofan", "maglev", "wasm-tier-up", "wasm-dynamic-tiering"])
    setFlagsFromString(`--no-${compiler}`);
  setFlagsFromString("--semi-space-growth-factor=1");
}

/** Called once, when the daemon is ready. Turbofan stays off: see `optimizeWhenBusy`. */
export function allowOptimization(): void {
  setFlagsFromString("--maglev");
  setFlagsFromString("--semi-space-growth-factor=2");
}

/** Switches turbofan on when the process has used `busyMs` of CPU time, which is asked every `checkMs`. Its code saves up to
 *  a tenth of the time per message, but compiling it takes longer than a burst of some thousand messages gains. Called
 *  once, after startup. */
export async function optimizeWhenBusy(
  clock: Clock,
  { busyMs, checkMs }: { readonly busyMs: number; readonly checkMs: number },
  signal: AbortSignal,
): Promise<void> {
  const isBusy = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000 > busyMs;
  };
  while (!isBusy()) {
    await clock.sleep(checkMs, signal);
    if (signal.aborted) return;
  }
  setFlagsFromString("--turbofan");
}

/** Waits until the event loop has been quiet for `quietMs`, since messages may be waiting at the start. Then writes the
 *  compile cache and collects garbage, which blocks the event loop for some tens of milliseconds. Called once, after
 *  startup. */
export async function tidyAfterStart(clock: Clock, quietMs: number, signal: AbortSignal): Promise<void> {
  for (let before = performance.eventLoopUtilization(); ; ) {
    await clock.sleep(quietMs, signal);
    if (signal.aborted) return;
    const now = performance.eventLoopUtilization();
    if (performance.eventLoopUtilization(now, before).utilization < quietShare) break;
    before = now;
  }
  // Node writes it at its end otherwise, which SIGKILL prevents.
  flushCompileCache();
  collectGarbage();
}

/** Runs one full collection that also returns the freed pages to the system. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (how: { type: "major"; flavor: "last-resort" }) => void;
  setFlagsFromString("--no-expose-gc");
  collect({ type: "major", flavor: "last-resort" });
}
