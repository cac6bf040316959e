// The context of one claimed draft in the stages send and settle.

import type { Clock, Log } from "bridgehead/contract";
import type { LeaseDeadline } from "../../engine/lease-deadline.ts";
import type { Timing } from "../../engine/timing.ts";
import type { Database } from "../../store/driver.ts";
import type { Lease } from "../../store/lanes.ts";
import type { DraftRow } from "../../store/tables/drafts.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import type { LiveSessions } from "../live-sessions.ts";

export interface SendDeps {
  readonly lines: () => ChannelRuntimes;
  readonly sessions: LiveSessions;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  /** Timeout of one attempt, in milliseconds. */
  readonly timeout: number;
  readonly timing: Timing;
}

export interface Sending {
  readonly line: ChannelRuntime;
  readonly lease: Lease;
  readonly leaseDeadline: LeaseDeadline;
  readonly draft: DraftRow;
}
