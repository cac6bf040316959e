// The pipeline's interface to live sessions (calls), implemented in src/calls. All of it runs inside the
// transaction of the calling stage.

import type { Clock, Log, MessageEvent, SendOutcome } from "bridgehead/contract";
import { bootNumber } from "../ops/boot.ts";
import type { Database, Query } from "../store/driver.ts";
import type { DraftChange, DraftRow } from "../store/tables/drafts.ts";
import type { EventRow } from "../store/tables/events.ts";
import type { AttachmentRow } from "../store/tables/files.ts";
import type { StoredMessage, StoredSession } from "./accept/stage.ts";
import type { ChannelRuntime } from "./channel-runtime.ts";

/** The part of stage route's context that events of a session need. */
export interface SessionContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  /** Called at the commit. */
  readonly committed: (() => void)[];
  /** Cancels the running question of that conversation. */
  cancel(conversation: string): void;
}

/** Whether a draft may be spoken in its call. */
export interface Admission {
  /** The change that keeps it from being spoken now; null when it may be spoken. */
  readonly change: DraftChange | null;
  /** It may be spoken when the commit of its claim is on disk, not earlier. */
  readonly waitsForDisk: boolean;
}

export interface LiveSessions {
  /** Stage route: applies a session event to its session and settles the event. */
  routeEvent(
    q: Query,
    line: ChannelRuntime,
    row: EventRow,
    event: StoredSession,
    context: SessionContext,
  ): Promise<void>;
  /** Stage route: routes a message of the session `about.id` and settles its event. Caps and `max_age` do not
   *  apply. `about.session`: the session's conversation; null for an unknown session. */
  routeMessage(
    q: Query,
    line: ChannelRuntime,
    message: { readonly row: EventRow; readonly event: StoredMessage },
    about: {
      readonly id: string;
      readonly session: string | null;
      readonly attachments: readonly AttachmentRow[];
    },
    context: SessionContext,
  ): Promise<void>;
  /** Stage route: opens an escalation for a message to humans, when it is a missed call or the channel has
   *  no notification target. */
  openForHumans(
    q: Query,
    line: ChannelRuntime,
    row: EventRow,
    event: MessageEvent & Required<Pick<MessageEvent, "forHumans">>,
    conversation: string,
  ): Promise<void>;
  /** Stage send: returns whether the due head of a lane may be spoken. Writes nothing. */
  admission(q: Query, draft: DraftRow, session: string): Promise<Admission>;
  /** Stage send: returns the change after an attempt to speak the draft. `tryingFor` is the time since its
   *  first attempt, in milliseconds. Pure. */
  afterAttempt(outcome: SendOutcome, tryingFor: number): DraftChange;
}

/** Returns whether the effects of a call need not wait for the disk: an SQLite store is on the machine that holds the
 *  sockets, so a power failure that takes the last commits ends the calls too (`calls/power-failure-rows.ts`). A PostgreSQL
 *  server can fail alone, and the calls continue. */
export const endsWithPower = (db: Pick<Database, "kind">): boolean => db.kind === "sqlite" && bootNumber !== null;
