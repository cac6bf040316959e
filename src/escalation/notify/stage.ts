// Stage tell.
// Input: escalations with a due step of the policy, and due notifications.
// Effect: applies the policy: selects the contacts to notify now and the time of the next step; renders due
// notifications.
// Output: contacts, notifications, and for each due notification a reply `ready` in the contact's own
// conversation.
// Failure: retried at the next sweep; no step was applied. Crash: the rows are still due.

import type { Policy } from "../../domain/policy.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { newId } from "../../ops/clock.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Query } from "../../store/driver.ts";
import { addNotice, type ContactRow, ensureContact, moveContact } from "../../store/tables/contacts.ts";
import {
  dueEscalations,
  type EscalationRow,
  hastenEscalation,
  moveEscalation,
  nowMs,
  postponeEscalation,
} from "../../store/tables/escalations.ts";
import { groupWait, planStep, type Recipient, type TargetState, targetFor } from "./decide.ts";
import { type SayDeps, writeDue } from "./render.ts";
import { lastTold, targetStates, tryNow } from "./rows.ts";

export interface TellDeps extends SayDeps {
  /** Null when the current configuration has no policy. */
  readonly policy: () => Policy | null;
}

const batch = 100;

export function tellStage(deps: TellDeps): TransactionalStage {
  return {
    takes: "escalations",
    async run(q) {
      const policy = deps.policy();
      if (policy === null) return [];
      const due = await dueEscalations(q, batch);
      const now = due.length > 0 ? await nowMs(q) : 0;
      const targets = await targetStates(
        q,
        due.map(({ id }) => id),
      );
      const told: Told = new Map();
      for (const row of due) {
        await q
          .savepoint(() => applyStep(q, policy, row, targets.get(row.id) ?? [], { ...deps, now, told }))
          .catch((error: unknown) => {
            deps.log.error({ escalation: row.number, err: error }, "escalation notification failed");
            return postponeEscalation(q, row.id, deps.timing.escalation.notifyRetry);
          });
      }
      const written = await writeDue(q, policy, deps);
      // More rows are due than fit into one commit.
      if (due.length === batch) q.waits.add(1);
      if (due.length + written === 0) return [];
      failpoint("notice.commit", "before", { count: written });
      return [() => failpoint("notice.commit", "after", { count: written })];
    },
  };
}

/** Cache by channel and address: milliseconds since its last notification, null for none. */
type Told = Map<string, number | null>;

/** Applies one step of the policy to one escalation: loads the recency of the addresses, writes the plan. */
async function applyStep(
  q: Query,
  policy: Policy,
  row: EscalationRow,
  known: readonly TargetState[],
  deps: TellDeps & { readonly now: number; readonly told: Told },
): Promise<void> {
  const { now } = deps;
  const { recipients, next, toldAt } = planStep(policy, row, known, deps.lines(), now);
  const targets = [...known];
  let carried = 0;
  for (const recipient of recipients)
    if (await notify(q, policy, row, recipient, targets, deps)) carried += 1;
  const { tier, enteredAt } = next.progress;
  await moveEscalation(q, row.id, { tier, entered_at: enteredAt, told_at: toldAt, due_at: next.dueAt });
  // No contact of this step is reachable on any channel, so the next step is due at once.
  if (next.tell.length > 0 && carried === 0)
    await hastenEscalation(q, row.id, deps.timing.escalation.repeatFailed);
}

/** Enqueues a notification for the recipient. A repetition is enqueued only when the last one is not
 *  waiting to be sent. Adds a new target to `targets`. Returns false when no channel carries it. */
async function notify(
  q: Query,
  policy: Policy,
  row: EscalationRow,
  recipient: Recipient,
  targets: TargetState[],
  deps: TellDeps & { readonly now: number; readonly told: Told },
): Promise<boolean> {
  const { to, channel, address } = recipient;
  if (channel === null || address === null) {
    deps.log.error({ escalation: row.number, way: to.way }, "responder not notified: no channel carries it");
    return false;
  }
  const id = newId(deps.clock.now());
  const target = targetFor(recipient, targets);
  // The configuration has changed, and the contact's former channel is gone.
  const moved = target !== undefined && isGone(target, channel, deps);
  if (target?.told && (target.due || (target.waiting && !moved))) {
    // The pending notification follows the retry schedule of ordinary mail, so its next attempt may be
    // hours away.
    if (moved) await moveContact(q, target.contact, channel);
    else if (target.contact.conversation !== null) await tryNow(q, target.contact.conversation);
    return true;
  }
  const { person, name, way } = to;
  const given =
    target?.contact ??
    (await ensureContact(q, { id, escalation: row.id, person, name, way, address, channel }));
  const contact = moved ? await moveContact(q, given, channel) : given;
  const repeats = target?.told === true;
  const wait = way === "webhook" ? 0 : groupWait(policy, await lastToldAt(q, policy, contact, deps.told));
  const notice = { id: newId(deps.clock.now()), contact: contact.id, text: null };
  await addNotice(
    q,
    repeats
      ? { ...notice, kind: "again", subject: String(deps.now) }
      : { ...notice, kind: "told", subject: "" },
    wait,
  );
  if (target === undefined) targets.push({ contact, told: true, due: true, waiting: false, reached: false });
  return true;
}

const isGone = ({ contact }: TargetState, channel: string, { lines }: TellDeps): boolean =>
  contact.channel !== channel && !lines().get(contact.channel)?.outbound;

async function lastToldAt(
  q: Query,
  policy: Policy,
  { channel, address }: ContactRow,
  told: Told,
): Promise<number | null> {
  const key = `${channel} ${address}`;
  const known = told.get(key);
  const ago = known === undefined ? await lastTold(q, { channel, address }, policy.group) : known;
  told.set(key, ago);
  return ago;
}
