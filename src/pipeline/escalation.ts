// The pipeline's interface to escalation handling, implemented in src/escalation. It is present with and without an
// escalation policy: the policy only adds responders. All of it runs inside the caller's transaction.

import type { ChannelStatus, MessageEvent } from "bridgehead/contract";
import type { Answer } from "../agent/calls.ts";
import { commandText } from "../domain/command-text.ts";
import type { About } from "../domain/policy.ts";
import type { Timing } from "../ops/timing.ts";
import type { Query } from "../store/driver.ts";
import type { ConversationRow } from "../store/tables/conversations.ts";
import type { DraftRow } from "../store/tables/drafts.ts";
import type { EventRow } from "../store/tables/events.ts";
import type { TurnRow } from "../store/tables/turns.ts";
import type { ChannelRuntime } from "./channel-runtime.ts";

export interface EscalationTrigger extends About {
  /** Idempotency key of the trigger, unique for all time: `turn:<id>`, `response:<platform message>`,
   *  `webhook:<id>` ... */
  readonly key: string;
  /** The origin of the trigger: the platform's webhook, the conversation's mode, the answer's text, or
   *  the daemon (`ours`). */
  readonly source: "webhook" | "mode" | "response" | "ours";
  /** Null: the escalation is about the channel, or about `about`. */
  readonly conversation: string | null;
  /** The subject, where it is neither the conversation nor the channel. */
  readonly about?: string;
  /** Text for the responder; contains no secrets. */
  readonly reason: string;
  /** Notifies responders of this trigger also when they were already notified of the escalation. */
  readonly news?: true;
  /** The customer's text. It is sent to the responder who acknowledged the escalation, because no other
   *  recipient gets it. */
  readonly said?: string;
}

/** Returns the trigger for messages or replies of a channel that are held for an operator, all for the same reason. One
 *  trigger stands for all of an hour (`timing.route.capEscalation`). `now` is in epoch milliseconds. Pure. */
export const heldTrigger = (
  { channel, agent, config }: Pick<ChannelRuntime, "channel" | "agent" | "config">,
  { code, reason }: { readonly code: string; readonly reason: string },
  now: number,
  timing: Timing,
): EscalationTrigger => ({
  key: `held:${channel}:${code}:${Math.floor(now / timing.route.capEscalation)}`,
  source: "ours",
  cause: "held",
  channel,
  agent,
  conversation: null,
  topic: null,
  reason: `held as ${code}: ${reason} (see ${commandText("inbox list", config)}, and outbox list)`,
});

/** The health of a channel with its agent, of one condition that its adapter checks, or of the store. */
export interface ChannelHealth {
  readonly channel: string;
  readonly agent: string;
  readonly state: ChannelStatus["state"];
  readonly reason: string | null;
  /** Time in this state, in milliseconds. */
  readonly forMs: number;
  /** Why the agent of a channel that works cannot be asked. Default: null, it can be asked, or an operator has
   *  deactivated it. */
  readonly agentProblem?: string | null;
  /** True before the platform has accepted the agent's key since the start. Default: false. */
  readonly isAgentUnknown?: boolean;
  /** The subject, where it is not the channel. For the store, `channel` is the first one. */
  readonly about?: string;
}

/** The subject of an escalation about the store. Its channel is one of those that run. */
export const storeSubject = "store";
/** The subject of an escalation about a warning of a channel (`Channel.warn`). */
export const warningSubject = (channel: string, code: string): string => `channel:${channel}:warning:${code}`;

/** Why a draft is not sent. */
export interface Unsent {
  readonly state: "failed" | "held" | "dropped";
  /** `DraftChange.code`. Default: none. */
  readonly code?: string | null;
  readonly reason: string;
}

export interface EscalationHooks {
  /** Opens or extends the escalation that responders are notified of. Deduplicates by key. Without a
   *  policy it stores nothing. */
  open(q: Query, trigger: EscalationTrigger): Promise<void>;
  /** Handles a message that the adapter would have answered. Returns true when it is a responder's reply
   *  to an escalation. Its event is then settled, and the agent never receives it. */
  routeReply(q: Query, line: ChannelRuntime, row: EventRow, event: MessageEvent): Promise<boolean>;
  /** Milliseconds until the platform's conversation is polled after a question; depends on the policy. */
  readonly pollAfter: () => number;
  /** Called for a question without an answer, and for an answer of an agent with configured escalations: opens
   *  one when the answer escalates. Returns true when the call must be transferred after the answer.
   *  Independent of the policy. */
  answered(
    q: Query,
    line: ChannelRuntime,
    about: { readonly conversation: ConversationRow; readonly turn: TurnRow },
    answer: Answer,
  ): Promise<boolean>;
  /** Called when a draft will no longer be sent without an operator. */
  undeliverable(
    q: Query,
    line: ChannelRuntime,
    draft: Pick<DraftRow, "id" | "conversation" | "reply">,
    why: Unsent,
  ): Promise<void>;
}
