// Memory that starting has used and nobody needs any more. V8 keeps such garbage until it wants the room, which an idle
// daemon never does.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** One full collection that also gives the freed pages back. Blocks for some tens of milliseconds: for the moment
 *  between starting and working. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (how: { type: "major"; flavor: "last-resort" }) => void;
  setFlagsFromString("--no-expose-gc");
  collect({ type: "major", flavor: "last-resort" });
}
