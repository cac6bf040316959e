// One claimed draft with all that sending it, or finding out about it, needs.

import type { Clock, Log } from "bridgehead/contract";
import type { DraftRow } from "../store/drafts.ts";
import type { Database } from "../store/driver.ts";
import type { Lease } from "../store/lanes.ts";
import type { Line, Lines } from "./line.ts";
import type { Tenure } from "./tenure.ts";

export interface SendDeps {
  readonly lines: () => Lines;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  /** Milliseconds one attempt may take. */
  readonly timeout: number;
}

export interface Sending {
  readonly line: Line;
  readonly lease: Lease;
  readonly tenure: Tenure;
  readonly draft: DraftRow;
}
