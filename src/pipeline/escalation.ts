// The pipeline's interface to escalation handling, implemented in src/escalation. It is present with and without an
// escalation policy: the policy only adds responders. All of it runs inside the caller's transaction.

import type { MessageEvent } from "bridgehead/contract";
import type { Answer } from "../agent/calls.ts";
import type { Cause } from "../domain/policy.ts";
import type { ConversationRow } from "../store/conversations.ts";
import type { DraftRow } from "../store/drafts.ts";
import type { Query } from "../store/driver.ts";
import type { EventRow } from "../store/events.ts";
import type { TurnRow } from "../store/turns.ts";
import type { Line } from "./line.ts";

export interface Raised {
  /** What was noticed, once for ever: `turn:<id>`, `response:<platform message>`, `webhook:<id>` ... */
  readonly key: string;
  /** How: by the platform's webhook, the conversation's mode, the answer's text; or something of our own. */
  readonly source: "webhook" | "mode" | "response" | "ours";
  readonly cause: Cause;
  readonly channel: string;
  /** As the configuration names it. */
  readonly agent: string;
  /** Null: it is about the channel. */
  readonly conversation: string | null;
  readonly topic: string | null;
  /** For the human; no secrets. */
  readonly reason: string;
  /** When people know of the escalation already, they hear of this, too. */
  readonly news?: true;
  /** What the person said: whoever has the escalation is told, for nobody else will hear it. */
  readonly said?: string;
}

export interface Escalation {
  /** Opens or extends the escalation that responders are notified of. Deduplicates by key. Without a policy nothing is stored. */
  raise(q: Query, raised: Raised): Promise<void>;
  /** A message that the adapter would have answered: true when it is a human's, about an escalation. Then its event is
   *  settled, and the agent never sees it. */
  hear(q: Query, line: Line, row: EventRow, event: MessageEvent): Promise<boolean>;
  /** Called when the platform has taken a question: detects an escalating answer and schedules a look at the platform's
   *  conversation. Returns true when the call must be handed over after the answer. Independent of the policy. */
  answered(
    q: Query,
    line: Line,
    about: { readonly conversation: ConversationRow; readonly turn: TurnRow },
    answer: Answer,
  ): Promise<boolean>;
  /** A draft will not go out by itself any more. */
  stuck(
    q: Query,
    line: Line,
    draft: Pick<DraftRow, "id" | "conversation" | "reply">,
    why: { readonly state: "failed" | "held" | "dropped"; readonly reason: string },
  ): Promise<void>;
}
