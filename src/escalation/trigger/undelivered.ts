// Notifications that cannot be delivered: by their channel, or because it was removed.

import type { Log } from "bridgehead/contract";
import { newId } from "../../ops/clock.ts";
import { logOnDisk, type Query } from "../../store/driver.ts";
import {
  type EscalationRow,
  hastenEscalations,
  lockEscalations,
  reopenEscalation,
} from "../../store/tables/escalations.ts";
import { notifyTargets } from "../../store/tables/responders.ts";
import type { EscalationCore } from "../actions.ts";
import { isPassedOn, passedOnRunning } from "./decide.ts";
import { passedOn, type Undelivered } from "./rows.ts";

/** Handles notifications that cannot be delivered. The next step of the policy becomes due at once. A customer's
 *  text is passed to all targets of the escalation instead, and the escalation opens again when none of them receives
 *  it. Returns the numbers of the escalations. */
export async function handleFailedNotifications(
  q: Query,
  failed: Undelivered["notifications"],
  { clock, lines, log, timing }: Omit<EscalationCore, "policy">,
): Promise<readonly number[]> {
  const ofCustomers = failed.filter(({ kind }) => kind === "customer");
  const others = failed.filter(({ kind }) => kind !== "customer").map(({ escalation }) => escalation);
  const rows = await lockEscalations(
    q,
    failed.map(({ escalation }) => escalation),
  );
  const states = [];
  for (const { escalation, subject } of ofCustomers)
    states.push(passedOnRunning(await passedOn(q, escalation, subject), lines()));
  await hastenEscalations(q, others, timing.escalation.repeatFailed);
  for (const [at, { escalation, subject, text }] of ofCustomers.entries()) {
    const row = rows.get(escalation);
    const state = states[at];
    if (!row || !state) continue;
    await notifyTargets(q, row, { id: newId(clock.now()), kind: "customer", subject, text }, "all");
    if (!isPassedOn(state)) await reopenUnreached(q, row, log);
  }
  return failed.flatMap(({ escalation }) => rows.get(escalation)?.number ?? []);
}

/** Opens an acknowledged escalation again, because no responder receives the customer's messages. */
export async function reopenUnreached(q: Query, { id, number }: EscalationRow, log: Log): Promise<void> {
  if (await reopenEscalation(q, id))
    logOnDisk(q, log).error(
      { escalation: number },
      "escalation reopened: no responder receives the customer's messages",
    );
}
