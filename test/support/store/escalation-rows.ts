// Single rows of escalations, for tests.

import type { Query } from "../../../src/store/driver.ts";
import {
  addTriggers,
  type EscalationRow,
  insertEscalations,
  type NewEscalation,
  type NewTrigger,
} from "../../../src/store/tables/escalations.ts";
import { addNotifications, type NewNotification } from "../../../src/store/tables/responders.ts";

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
