// Single rows of escalations, for tests.

import type { Query } from "../../../src/store/driver.ts";
import {
  addTriggers,
  type EscalationRow,
  insertEscalations,
  type NewEscalation,
  type NewTrigger,
} from "../../../src/store/tables/escalations.ts";
import { addNotifications, addTargets, type NewNotification } from "../../../src/store/tables/responders.ts";

/** Opens one; null when there is one about its subject, or the trigger `key` was recorded. */
export const insertEscalation = async (
  q: Query,
  row: Omit<NewEscalation, "key">,
  key = "",
): Promise<EscalationRow | null> => (await insertEscalations(q, [{ ...row, key }]))[0] ?? null;

/** False when the key was recorded before. */
export const addTrigger = async (q: Query, trigger: NewTrigger): Promise<boolean> =>
  (await addTriggers(q, [trigger])) === 1;

/** Due in `inMs` milliseconds. False for a duplicate. */
export const addNotification = async (
  q: Query,
  notification: Omit<NewNotification, "inMs">,
  inMs: number,
): Promise<boolean> => (await addNotifications(q, [{ ...notification, inMs }])) === 1;

/** Opens one about channel `c`, or whatever is said; null when there is one. */
export const opens = (q: Query, id: string, over: Partial<EscalationRow> = {}) =>
  insertEscalation(q, {
    id,
    about: "channel:c:cap",
    conversation: null,
    channel: "c",
    agent: "agent",
    cause: "cap",
    topic: null,
    reason: "a cap",
    ...over,
  });

/** The contact `id` of escalation `escalation`. */
export const contact = (q: Query, id: string, escalation: string, address = `${id}@example.org`) =>
  addTargets(q, [{ id, escalation, person: id, name: `Name ${id}`, way: "email", address, channel: "c" }]);

export const notice = (
  q: Query,
  id: string,
  of: string,
  kind: "opened" | "reminder" | "message" = "opened",
  inMs = 0,
) => addNotification(q, { id, target: of, kind, subject: "", text: null }, inMs);
