// What the page of a link shows and offers, on loaded rows. Pure.

import type { ActionName, Policy } from "../../domain/policy.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import type { TargetRow } from "../../store/tables/responders.ts";
import type { TranscriptMessage } from "../../store/tables/transcript.ts";
import { type EscalationCase, notifiedOf, triggersAndNotes } from "../case.ts";
import { utc } from "../notify/text.ts";

/** An escalation, and the notification target that has the link. */
export interface Linked extends EscalationCase {
  readonly target: TargetRow;
  /** Null when the customer's channel can carry a reply, or the reason. */
  readonly whyNotReplied: string | null;
}

export type LinkPolicy = Policy["link"];

/** Returns the actions that the policy and the state permit. */
export function permittedActions(linked: Linked, { actions }: LinkPolicy): ReadonlySet<ActionName> {
  const { target, details, whyNotReplied } = linked;
  const { row } = details;
  const permitted = new Set(actions);
  const isOwn = row.acknowledged_target === target.id;
  if (row.state === "closed") {
    for (const name of ["ack", "reply", "close"] as const) permitted.delete(name);
    if (row.conversation === null || linked.isReturned) permitted.delete("resume");
  }
  if (row.state === "acknowledged" && isOwn) permitted.delete("ack");
  if (row.conversation === null) permitted.delete("resume");
  if (whyNotReplied !== null) permitted.delete("reply");
  return permitted;
}

/** The content of the page. All texts are plain. */
export interface PageContent {
  readonly title: string;
  readonly state: "open" | "acknowledged" | "closed";
  /** Who has it, or what to do. */
  readonly status: string;
  /** Pairs of label and value in display order: what a decision needs. */
  readonly facts: readonly (readonly [string, string])[];
  /** The other pairs. */
  readonly details: readonly (readonly [string, string])[];
  readonly messages: readonly ShownMessage[];
  /** Earlier messages that `bridgehead escalation show` prints. */
  readonly isCut: boolean;
  readonly notes: readonly string[];
  readonly notified: readonly string[];
  readonly actions: ReadonlySet<ActionName>;
  /** Why a reply to the customer is not offered; null when it is, or when the policy does not permit it. */
  readonly whyNotReplied: string | null;
  /** The webhook's receivers share one link, so they give their name. */
  readonly asksName: boolean;
}

export interface ShownMessage {
  readonly who: string;
  readonly side: TranscriptMessage["who"];
  readonly at: string;
  readonly text: string;
}

const sides = { person: "Customer", agent: "Agent", human: "Responder" } as const;

/** Limit of messages on the page. */
const mostMessages = 40;

export function pageOf(linked: Linked, policy: LinkPolicy): PageContent {
  const { target, details, notifications } = linked;
  const { row, person, subject, said } = details;
  const { triggers, notes } = triggersAndNotes(details.triggers);
  const isFull = policy.addresses === "full";
  const address = person && (isFull ? person.address : masked(person.address));
  // Many mail programs give the address as the name.
  const name = isFull || !person?.name?.toLowerCase().includes(person.address.toLowerCase()) ? person?.name : null;
  const actions = permittedActions(linked, policy);
  const shown = said.slice(-mostMessages);
  return {
    title: `Escalation ${row.number}`,
    state: row.state,
    status: statusOf(row, target),
    facts: [
      ["Why", row.reason],
      ...(row.topic === null ? [] : [["Topic", row.topic] as const]),
      ...(person === null ? [] : [["Customer", [name, address].filter(Boolean).join(", ")] as const]),
      ...(subject === null ? [] : [["Subject", subject] as const]),
      ["Opened", utc(row.opened_at)],
    ],
    details: [
      ["Channel", row.channel],
      ["Agent", row.agent],
      ...triggers.map(
        ({ at, from, detail }) => ["Detected by", `${from}, ${utc(at)}${detail ? `: ${detail}` : ""}`] as const,
      ),
    ],
    messages: shown.map(({ who, at, text, other, cut, unsent }) => ({
      who: `${other ? nameOf(other, policy) : sides[who]}${unsent ? " (not sent)" : ""}`,
      side: who,
      at: utc(at),
      text: cut ? `${text} [${cut} more characters]` : text,
    })),
    isCut: details.cut === true || shown.length < said.length,
    notes: notes.map(({ at, text }) => `${utc(at)} ${text}`),
    notified: notifiedOf(notifications).map(
      ({ name, way, at, state, count }) =>
        `${name} by ${wayNames[way]}: ${state}, ${utc(at)}${count > 1 ? ` (${count} notifications)` : ""}`,
    ),
    actions,
    whyNotReplied: policy.actions.includes("reply") && row.state !== "closed" ? linked.whyNotReplied : null,
    asksName: target.way === "webhook",
  };
}

const wayNames = { sms: "SMS", email: "email", webhook: "webhook" } as const;

const nameOf = (address: string, { addresses }: LinkPolicy): string =>
  addresses === "full" ? address : masked(address);

function statusOf(row: EscalationRow, target: TargetRow): string {
  if (row.state === "closed") return `Closed by ${row.closed_by || "an unknown actor"}.`;
  if (row.state === "open") return "Not acknowledged yet. An acknowledgement ends the notifications of all responders.";
  if (row.acknowledged_target !== target.id)
    return `Acknowledged by ${row.acknowledged_by || "an unknown actor"}. If you acknowledge it as well, it is yours.`;
  const answer = target.way === "email" ? "answer the mail" : `answer the message with ${row.number} and your text`;
  return row.conversation === null || target.way === "webhook"
    ? "It is yours."
    : `It is yours. To write to the customer, use the form below, or ${answer}.`;
}

/** Masks an address, so that it can be recognized but not used: `a***@example.org`, `+1202*****23`. */
export function masked(address: string): string {
  const at = address.lastIndexOf("@");
  if (at > 0) return `${address.slice(0, 1)}***${address.slice(at)}`;
  const [head, tail] = [address.slice(0, 5), address.slice(-2)];
  return address.length < 8 ? "***" : `${head}${"*".repeat(Math.min(address.length - 7, 12))}${tail}`;
}
