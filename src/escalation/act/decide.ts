// Decides what a requested action does to one escalation, on loaded rows. Pure. A repetition changes nothing and is
// reported as done, or as sent before.

import type { Traits } from "bridgehead/contract";
import { looksLikeCommand } from "../../domain/instructions.ts";
import type { ActionName } from "../../domain/policy.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import type { Actor } from "../actions.ts";
import { quotesNotification } from "../notify/text.ts";
import { whyNotRelayed } from "../reply/decide.ts";
import type { Customer } from "../reply/rows.ts";

export interface ActionRequest {
  readonly action: ActionName;
  readonly by: Actor;
  /** reply: text for the customer. note: text for the responders. */
  readonly text: string;
  /** reply, note: repeats a text that was enqueued before. */
  readonly again: boolean;
}

/** Result of an action. `says`: for the actor, without the escalation's number. */
export interface ActionOutcome {
  readonly done: boolean;
  readonly says: string;
  /** True when the text was not enqueued because it was enqueued before; `again` enqueues it. */
  readonly repeated?: true;
}

/** What the decision needs, besides the escalation. */
export interface ActionFacts {
  /** Null when the escalation is about a channel. */
  readonly customer: Customer | null;
  /** The kind of the customer's channel; null when it cannot send. */
  readonly kind: Traits["platform"] | null;
  /** The same note was kept before. */
  readonly isNoted: boolean;
  /** The same text was enqueued for the customer before: its age in milliseconds and the state of its draft. */
  readonly said: { readonly ago: number; readonly state: string | null } | null;
  /** The conversation was returned to the agent since the escalation was opened. */
  readonly isReturned: boolean;
  /** Another escalation about the same subject is open. */
  readonly hasSuccessor: boolean;
}

export interface ActionPlan {
  readonly outcome: ActionOutcome;
  readonly note: string | null;
  readonly relay: boolean;
  readonly acknowledge: boolean;
  readonly end: "resume" | "close" | null;
}

export const noteOf = (by: Actor, text: string): string => `${by.name}: ${text}`;

const nothing = { note: null, relay: false, acknowledge: false, end: null } as const;
const refused = (says: string): ActionPlan => ({ ...nothing, outcome: { done: false, says } });
const done = (says: string, plan: Partial<ActionPlan> = {}): ActionPlan => ({
  ...nothing,
  outcome: { done: true, says },
  ...plan,
});

export function decideAction(row: EscalationRow, request: ActionRequest, facts: ActionFacts): ActionPlan {
  const { action, by, text } = request;
  if ((action === "note" || action === "reply") && text.trim() === "") return refused("the text is missing");
  if (action === "note") {
    const outcome = { done: true, says: "this note was kept before", repeated: true } as const;
    return facts.isNoted ? { ...nothing, outcome } : done("the note was kept", { note: noteOf(by, text) });
  }
  // A closed escalation may have left the agent silent; the agent can then get the conversation back.
  const isLeftSilent = action === "resume" && row.conversation !== null && !facts.isReturned && !facts.hasSuccessor;
  if (row.state === "closed" && !isLeftSilent) return afterClose(row, request, facts);
  if (action === "close") return done("closed", { end: "close" });
  if (action === "resume") return done("returned to the agent", { end: "resume" });
  if (action === "ack") {
    const isOwn =
      row.state === "acknowledged" &&
      row.acknowledged_by === by.name &&
      (row.acknowledged_target ?? "") === (by.target ?? "");
    if (isOwn) return done(`acknowledged by ${by.name} before`);
    return done(`acknowledged by ${by.name}`, { acknowledge: true });
  }
  if (facts.said !== null) return repeatedReply(facts.said);
  const slip = text.split("\n").find(looksLikeCommand);
  if (slip !== undefined)
    return refused(
      `not sent: "${slip.trim().slice(0, 40)}" looks like a command for notifications (#note, #close, #resume); use the actions note, close or resume`,
    );
  if (quotesNotification(text)) return refused("not sent: the text contains our own notification");
  const trouble = whyNotRelayed(facts.customer, facts.kind);
  if (trouble !== null) return refused(`not sent: ${trouble}`);
  // An acknowledged escalation stays with its responder, who gets the customer's next messages.
  const isOpen = row.state === "open";
  return done(`will be sent to the customer${isOpen ? `; acknowledged by ${by.name}` : ""}`, {
    relay: true,
    acknowledge: isOpen,
  });
}

function repeatedReply({ ago, state }: NonNullable<ActionFacts["said"]>): ActionPlan {
  const is = state === "sent" || state === "delivered" ? "was sent" : "waits to be sent";
  const seconds = Math.max(0, Math.round(ago / 1000));
  const says = `not sent again: the same text was given ${seconds} s ago, and ${is}`;
  return { ...nothing, outcome: { done: false, says, repeated: true } };
}

/** Result of an action on a closed escalation. A repetition by the same actor succeeds. */
function afterClose({ closed_by }: EscalationRow, { action, by }: ActionRequest, facts: ActionFacts): ActionPlan {
  const closed = `it was closed by ${closed_by ?? "an unknown actor"}`;
  if (closed_by !== by.name) return refused(closed);
  if (action === "close") return done(closed);
  return action === "resume" && facts.isReturned ? done("it was returned to the agent") : refused(closed);
}
