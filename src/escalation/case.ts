// One escalation as responders and operators see it, on the page of a link, in the console and in
// `bridgehead escalation show`.

import type { Query } from "../store/driver.ts";
import type { EscalationRow, TriggerRow } from "../store/tables/escalations.ts";
import { type NotificationStateRow, notificationStatesOf } from "../store/tables/responders.ts";
import { wasReturned } from "../store/tables/takeover.ts";
import { detailsOf } from "./notify/rows.ts";
import type { Details } from "./notify/text.ts";

export interface EscalationCase {
  readonly details: Details;
  readonly notifications: readonly NotificationStateRow[];
  /** The conversation was returned to the agent since the escalation was opened. Known of a closed one. */
  readonly isReturned: boolean;
}

/** Loads an escalation with its triggers, transcript and notifications. `transcript`: see `detailsOf`. */
export async function loadCase(
  q: Query,
  row: EscalationRow,
  transcript: "bounded" | "whole" = "bounded",
): Promise<EscalationCase> {
  const details = (await detailsOf(q, [row], transcript)).get(row.id);
  if (!details) throw new Error(`reading escalation ${row.number}: it was not found`);
  const { conversation, state, from_seq } = row;
  const isClosed = state === "closed" && conversation !== null;
  return {
    details,
    notifications: await notificationStatesOf(q, row.id),
    isReturned: isClosed && (await wasReturned(q, conversation, from_seq)),
  };
}

const sourceNames: Readonly<Record<string, string>> = {
  webhook: "Webhook of the platform",
  mode: "Mode of the conversation on the platform",
  response: "Answer of the agent",
  ours: "Bridgehead",
};

/** Returns the triggers of an escalation and the notes of its responders, in the order of their recording. */
export function triggersAndNotes(recorded: readonly TriggerRow[]) {
  const triggers = recorded.filter(({ source }) => source !== "note");
  const notes = recorded.filter(({ source }) => source === "note");
  return {
    triggers: triggers.map(({ source, detail, recorded_at: at }) => ({
      at,
      from: sourceNames[source] ?? source,
      detail,
    })),
    notes: notes.map(({ detail, recorded_at: at }) => ({ at, text: detail ?? "" })),
  };
}

/** A responder as notified by one method. */
export interface NotifiedTarget extends Pick<NotificationStateRow, "name" | "way" | "address"> {
  /** Time and state of the newest notification that asks for an acknowledgement. */
  readonly at: number;
  readonly state: string;
  /** Number of such notifications. */
  readonly count: number;
}

/** Returns the responders who were asked to acknowledge, in the order of their first notification. */
export function notifiedOf(notifications: readonly NotificationStateRow[]): readonly NotifiedTarget[] {
  const asking = notifications.filter(({ kind }) => kind === "opened" || kind === "reminder");
  return [...Map.groupBy(asking, ({ target }) => target).values()].flatMap((all) => {
    const newest = all.at(-1);
    if (newest === undefined) return [];
    const { name, way, address, made_at: at } = newest;
    return [{ name, way, address, at, state: deliveryText(newest), count: all.length }];
  });
}

/** Describes the delivery of a notification in one word or two. */
export function deliveryText({ state }: Pick<NotificationStateRow, "state">): string {
  if (state === null || state === "queued") return "waiting to be sent";
  return state === "unknown" ? "outcome unknown" : state;
}
