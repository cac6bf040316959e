// Stage notify. Input: escalations with a due step of the policy, and due notifications. Effect: applies the policy:
// selects the responders to notify now and the time of the next step; renders due notifications. Output: targets,
// notifications, and for each due message a reply `ready` in the target's own conversation. Failure: what fails is
// retried alone, later; an escalation then continues with its next step. Crash: the rows are still due.

import type { Policy } from "../../domain/policy.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { newId, newToken } from "../../ops/clock.ts";
import { failpoints } from "../../ops/failpoints.ts";
import { idsOf, isolated, type Query } from "../../store/driver.ts";
import { insertConversations } from "../../store/tables/conversations.ts";
import { insertNotices } from "../../store/tables/drafts.ts";
import {
  type DueEscalation,
  dueEscalations,
  type EscalationRow,
  hastenEscalations,
  lockEscalations,
  moveEscalations,
  postponeEscalation,
} from "../../store/tables/escalations.ts";
import {
  addNotifications,
  addTargets,
  type DueNotification,
  dueNotifications,
  giveLinks,
  type NotificationRow,
  sentIds,
} from "../../store/tables/responders.ts";
import type { EscalationCore, EscalationParts } from "../actions.ts";
import { logLost, moveFromRemoved, reconsiderAcknowledged } from "../move/stage.ts";
import { passedOn } from "../trigger/rows.ts";
import { handleFailedNotifications } from "../trigger/stage.ts";
import {
  continues,
  detailsFor,
  type Group,
  groupDue,
  groupedAddresses,
  notifyRecipients,
  planMessages,
  planStep,
  readyGroups,
  recipientsWithOneConversation,
  splitGone,
} from "./decide.ts";
import {
  bindTargets,
  detailsOf,
  endAll,
  endNotifications,
  headlinesOf,
  lastNotified,
  loadConversations,
  moveTargets,
  postponeNotifications,
  readTargets,
  retryNow,
  targetStates,
} from "./rows.ts";

type NotifyDeps = EscalationCore & Pick<EscalationParts, "link">;

/** Limits of one batch: escalations, and notifications. */
const mostSteps = 100;
const mostNotifications = 1000;

export function notifyStage(deps: NotifyDeps): TransactionalStage {
  return {
    takes: "escalations",
    async run(q) {
      const policy = deps.policy();
      if (policy === null) return [];
      const due = await dueEscalations(q, mostSteps);
      const failed = async (row: DueEscalation, error: unknown) => {
        deps.log.error({ escalation: row.number, err: error }, "escalation notification failed");
        await postponeEscalation(q, row.id, deps.timing.escalation.notifyRetry);
      };
      const [open, acknowledged] = [due.filter(({ state }) => state === "open"), due.filter(isAcknowledged)];
      await isolated(q, open, (rows) => applySteps(q, policy, rows, deps), failed);
      await isolated(q, acknowledged, (rows) => reconsiderAcknowledged(q, policy, rows, deps), failed);
      const written = await writeDue(q, policy, deps);
      // More rows are due than fit into one commit.
      if (due.length === mostSteps) q.waits.add(1);
      if (due.length + written === 0) return [];
      failpoints["notify.commit"].publish({ phase: "before", count: written });
      return [() => failpoints["notify.commit"].publish({ phase: "after", count: written })];
    },
  };
}

const isAcknowledged = ({ state }: EscalationRow): boolean => state === "acknowledged";

async function applySteps(
  q: Query,
  policy: Policy,
  rows: readonly DueEscalation[],
  { lines, clock, log, timing }: NotifyDeps,
): Promise<void> {
  const running = lines();
  const isGrouped = policy.group > 0;
  const addresses = isGrouped ? groupedAddresses(policy, rows, running) : [];
  const states = await targetStates(q, idsOf(rows));
  const targets = isGrouped ? [...states.values()].flat().map(({ target }) => target) : [];
  const ago = await lastNotified(q, [...addresses, ...targets.filter(({ way }) => way !== "webhook")], policy.group);
  const plans = rows.map((row) => planStep(policy, row, states.get(row.id) ?? [], running));
  const make = () => newId(clock.now());
  const steps = plans.map((plan) => notifyRecipients(policy, plan, ago, running, make, timing.escalation.repeatFailed));
  await addTargets(
    q,
    steps.flatMap(({ targets }) => targets),
  );
  await moveTargets(
    q,
    steps.flatMap(({ moved }) => moved),
  );
  await addNotifications(
    q,
    steps.flatMap(({ notifications }) => notifications),
  );
  await moveEscalations(
    q,
    steps.map(({ step }) => step),
  );
  const retried = steps.flatMap((one) => one.retried);
  if (retried.length > 0) await retryNow(q, retried);
  for (const [at, { unreachable }] of steps.entries())
    for (const way of unreachable)
      log.error({ escalation: rows[at]?.number, way }, "responder not notified: no channel carries it");
}

/** Writes all due notifications. Returns the number of messages. */
async function writeDue(q: Query, policy: Policy, deps: NotifyDeps): Promise<number> {
  const notifications = await dueNotifications(q, mostNotifications, deps.timing.escalation.clockStep);
  if (notifications.length === 0) return 0;
  // An acknowledgement at another node notifies the targets that were notified before. The lock orders
  // each of these notifications before it, or cancels them. Targets are read under the lock, because
  // another node may have bound them since.
  const rows = await lockEscalations(
    q,
    notifications.map(({ escalation }) => escalation),
    "free",
  );
  const targets = await readTargets(
    q,
    notifications.map(({ target }) => target),
  );
  if (notifications.some(({ escalation }) => !rows.has(escalation))) q.waits.add(deps.timing.escalation.notifyBusy);
  if (notifications.length === mostNotifications) q.waits.add(1);
  const { carried, gone } = splitGone(notifications, targets, rows, deps.lines());
  const { groups, cancelled } = groupDue(carried, targets, rows);
  await endNotifications(q, cancelled, null);
  let written = 0;
  const write = async (some: readonly Group[]) => {
    const count = await writeMessages(q, policy, some, deps);
    written += count;
  };
  await isolated(q, groups, write, async (group, error) => {
    const { channel } = group[0].target;
    deps.log.error({ channel, err: error }, "writing a notification failed");
    await postpone(
      q,
      group.map(({ notification }) => notification),
      group.map(({ row }) => row.id),
      deps,
    );
  });
  const leave = (some: readonly (readonly [string, readonly DueNotification[]])[]) =>
    leaveRemoved(q, policy, new Map(some), rows, deps);
  await isolated(q, [...gone], leave, async ([escalation, some], error) => {
    const channel = targets.get(some[0]?.target ?? "")?.channel;
    deps.log.error({ channel, err: error }, "writing a notification failed");
    await postpone(q, some, [escalation], deps);
  });
  return written;
}

/** Postpones notifications that could not be written. The next step of the policy does not wait for them. */
async function postpone(
  q: Query,
  notifications: readonly NotificationRow[],
  escalations: readonly string[],
  { timing }: NotifyDeps,
): Promise<void> {
  await postponeNotifications(q, idsOf(notifications), timing.escalation.notifyRetry);
  await hastenEscalations(q, escalations, timing.escalation.repeatFailed);
}

/** Handles due notifications on channels that do not run. Those of acknowledged escalations move with their targets;
 *  the others have failed. */
async function leaveRemoved(
  q: Query,
  policy: Policy,
  gone: ReadonlyMap<string, readonly DueNotification[]>,
  rows: ReadonlyMap<string, EscalationRow>,
  deps: NotifyDeps,
): Promise<void> {
  const own = [...rows.values()].filter(({ id }) => gone.has(id));
  const acknowledged = own.filter(isAcknowledged);
  await moveFromRemoved(q, policy, acknowledged, deps);
  const failed = own.filter((row) => !isAcknowledged(row)).flatMap(({ id }) => gone.get(id) ?? []);
  if (failed.length === 0) return;
  const on = await passedOn(q, failed);
  const escalations = await handleFailedNotifications(q, failed, { rows, on }, deps);
  await endNotifications(q, idsOf(failed), null);
  logLost(q, deps.log, escalations);
}

/** Writes one message for each group. Returns their number. Leaves out those to an address to which another
 *  node may be writing for the first time; they stay due. */
async function writeMessages(
  q: Query,
  policy: Policy,
  groups: readonly Group[],
  { lines, clock, log, link, timing }: NotifyDeps,
): Promise<number> {
  const { whole, headlines } = detailsFor(groups);
  const threads = groups.flatMap((group) => (continues(group) ? (group[0].target.conversation ?? []) : []));
  const conversations = await loadConversations(q, recipientsWithOneConversation(groups, lines()));
  const details = new Map([
    ...(headlines.length > 0 ? await headlinesOf(q, headlines) : []),
    ...(whole.length > 0 ? await detailsOf(q, whole) : []),
  ]);
  const sent = threads.length > 0 ? await sentIds(q, threads) : new Map();
  const ready = readyGroups(groups, conversations, lines());
  if (ready.length < groups.length) q.waits.add(timing.escalation.notifyBusy);
  let now = clock.now();
  const make = { id: () => newId(now++), token: newToken, link };
  const messages = planMessages(ready, { details, conversations: conversations.known, sent }, lines(), make);
  const opened = messages.flatMap((one) => one.opened ?? []);
  await insertConversations(q, opened);
  const unbound = messages.flatMap(({ group, reply }) =>
    group.map(({ target }) => ({ target, conversation: reply.conversation })),
  );
  await bindTargets(
    q,
    unbound.filter(({ target }) => target.conversation === null).map((one) => ({ ...one, target: one.target.id })),
  );
  await giveLinks(
    q,
    messages.flatMap((one) => one.link ?? []),
    policy.link.expires,
  );
  await insertNotices(
    q,
    messages.map(({ reply }) => reply),
  );
  await endAll(
    q,
    messages.flatMap(({ group, reply }) =>
      group.map(({ notification }) => ({ notification: notification.id, reply: reply.id })),
    ),
  );
  for (const { group, error } of messages)
    if (error !== null) log.error({ escalation: group[0].row.number, err: error }, "rendering a notification failed");
  return messages.length;
}
