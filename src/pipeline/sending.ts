// The context of one claimed draft in the stages send and settle.

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
  /** Timeout of one attempt, in milliseconds. */
  readonly timeout: number;
}

export interface Sending {
  readonly line: Line;
  readonly lease: Lease;
  readonly tenure: Tenure;
  readonly draft: DraftRow;
}
