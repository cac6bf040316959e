// Stage move. Input: locked escalations with targets on channels that no longer run. Effect: finds another channel or
// address of each responder. Output: moved or new targets, their notifications, and escalations that open again because
// no responder gets the customer's messages. Failure: fails with the transaction of stage notify, which retries.
// Crash: the escalations and notifications are still due.

import type { Log } from "bridgehead/contract";
import type { Policy } from "../../domain/policy.ts";
import { newId } from "../../ops/clock.ts";
import { canSend } from "../../pipeline/channel-runtime.ts";
import { idsOf, logOnDisk, type Query } from "../../store/driver.ts";
import { changeOwnerTargets, type EscalationRow, endReconsideration } from "../../store/tables/escalations.ts";
import { addNotifications, addTargets } from "../../store/tables/responders.ts";
import type { EscalationCore } from "../actions.ts";
import { endNotifications, moveTargets } from "../notify/rows.ts";
import { passedOn } from "../trigger/rows.ts";
import { handleFailedNotifications, reopenUnreached } from "../trigger/stage.ts";
import { type MovePlan, planMove } from "./decide.ts";
import { leaveBehind, loadKnownTargets, loadUnsent } from "./rows.ts";

type MoveDeps = Omit<EscalationCore, "policy">;

/** Reconsiders acknowledged escalations after a start or a reload. One whose responder has no running channel opens
 *  again. */
export async function reconsiderAcknowledged(
  q: Query,
  policy: Policy,
  rows: readonly EscalationRow[],
  deps: MoveDeps,
): Promise<void> {
  const plans = await moveFromRemoved(q, policy, rows, deps);
  for (const { row, unreachable } of plans) if (unreachable) await reopenUnreached(q, row, deps.log);
  await endReconsideration(q, idsOf(rows));
}

/** Moves the targets of acknowledged escalations that are on removed channels, with the notifications that they have not
 *  received. What no channel carries counts as failed: a customer's message goes to the other targets. */
export async function moveFromRemoved(
  q: Query,
  policy: Policy,
  rows: readonly EscalationRow[],
  deps: MoveDeps,
): Promise<readonly MovePlan[]> {
  const { clock, lines, log } = deps;
  const targets = await loadKnownTargets(q, idsOf(rows));
  const gone = [...targets.values()].flat().filter(({ channel }) => !canSend(lines(), channel));
  if (gone.length === 0) return [];
  const unsent = await loadUnsent(q, idsOf(gone));
  const make = () => newId(clock.now());
  const plans = rows.map((row) => {
    const own = targets.get(row.id) ?? [];
    return planMove(policy, row, own, unsent, lines(), make);
  });
  await addTargets(
    q,
    plans.flatMap(({ added }) => added),
  );
  await moveTargets(
    q,
    plans.flatMap(({ moved }) => moved),
  );
  await changeOwnerTargets(
    q,
    plans.flatMap(({ row, owner }) => (owner === null ? [] : [{ id: row.id, target: owner }])),
  );
  await leaveBehind(
    q,
    plans.flatMap(({ repeated }) => repeated),
  );
  await addNotifications(
    q,
    plans.flatMap(({ notifications }) => notifications),
  );
  await endNotifications(
    q,
    plans.flatMap(({ ended }) => ended),
    null,
  );
  const failed = plans.flatMap((one) => one.failed);
  if (failed.length > 0) {
    const facts = { rows: new Map(rows.map((row) => [row.id, row])), on: await passedOn(q, failed) };
    await handleFailedNotifications(q, failed, facts, deps);
  }
  await leaveBehind(
    q,
    plans.flatMap(({ left }) => left),
  );
  for (const { row, moves } of plans)
    for (const { from, to } of moves)
      logOnDisk(q, log).info(
        { escalation: row.number, from_channel: from, to_channel: to },
        "escalation moved to another channel",
      );
  const escalations = plans.filter(({ lost }) => lost).map(({ row }) => row.number);
  if (escalations.length > 0) logLost(q, log, escalations);
  return plans;
}

/** Logs that notifications on removed channels are not delivered. */
export function logLost(q: Query, log: Log, escalations: readonly number[]): void {
  const fields = { escalations, reason: "its channel was removed" };
  logOnDisk(q, log).error(fields, "escalation notification not delivered");
}
