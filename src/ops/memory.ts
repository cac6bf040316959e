// Releases memory that only the startup needed. V8 keeps this garbage until it needs the space, and an idle
// daemon never does.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Runs one full collection that also returns the freed pages to the system. It blocks for some tens of
 *  milliseconds, so call it between startup and normal operation. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (how: { type: "major"; flavor: "last-resort" }) => void;
  setFlagsFromString("--no-expose-gc");
  collect({ type: "major", flavor: "last-resort" });
}
