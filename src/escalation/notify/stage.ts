// Stage tell.
// Input: escalations with a due step of the policy, and due notifications.
// Effect: applies the policy: selects the contacts to notify now and the time of the next step; renders due
// notifications.
// Output: contacts, notifications, and for each due notification a reply `ready` in the contact's own
// conversation.
// Failure: retried at the next sweep; no step was applied. Crash: the rows are still due.

import { type Contact, current, type Policy, step } from "../../domain/policy.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { newId } from "../../ops/clock.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { Query } from "../../store/driver.ts";
import {
  addNotice,
  type ContactRow,
  contactsOf,
  ensureContact,
  moveContact,
} from "../../store/tables/contacts.ts";
import {
  dueEscalations,
  type EscalationRow,
  hastenEscalation,
  moveEscalation,
  nowMs,
  postponeEscalation,
} from "../../store/tables/escalations.ts";
import { hasReached, lastTold, waitsToBeRead } from "../../store/tables/telling.ts";
import { tryNow } from "../../store/tables/waiting.ts";
import { agentRecipients, carrierOf } from "./recipients.ts";
import { type SayDeps, writeDue } from "./render.ts";

export interface TellDeps extends SayDeps {
  /** Null when the current configuration has no policy. */
  readonly policy: () => Policy | null;
}

const batch = 100;
/** Retry delay in milliseconds after a failed step. */
const againMs = 60_000;

export function tellStage(deps: TellDeps): TransactionalStage {
  return {
    takes: "escalations",
    async run(q) {
      const policy = deps.policy();
      if (policy === null) return [];
      const due = await dueEscalations(q, batch);
      const told: Told = new Map();
      for (const row of due) {
        await q
          .savepoint(() => decide(q, policy, row, { ...deps, told }))
          .catch((error: unknown) => {
            deps.log.error({ escalation: row.number, err: error }, "telling of an escalation failed");
            return postponeEscalation(q, row.id, againMs);
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
type Deciding = TellDeps & { readonly told: Told };

/** Applies one step of the policy to one escalation. */
async function decide(q: Query, policy: Policy, row: EscalationRow, deps: Deciding): Promise<void> {
  const now = await nowMs(q);
  const about = { topic: row.topic, agent: row.agent, channel: row.channel, cause: row.cause as never };
  const progress = { tier: row.tier, enteredAt: row.entered_at, toldAt: row.told_at };
  const next = step(policy, about, progress, now);
  const first = row.told_at === null && row.tier === 0;
  const recipients = first && policy.agentRecipients ? agentRecipients(row, deps.lines()) : [];
  let carried = 0;
  const here = () => current(policy, about, next.progress, now);
  const told = next.tell.length > 0 ? next.tell : await newcomers(q, policy, row, here(), deps);
  for (const contact of [...told, ...recipients])
    if (await tell(q, policy, row, contact, now, deps)) carried += 1;
  await moveEscalation(q, row.id, {
    tier: next.progress.tier,
    entered_at: next.progress.enteredAt,
    told_at: next.progress.toldAt ?? (first ? now : null),
    due_at: next.dueAt,
  });
  // No contact of this step is reachable on any channel, so the next step is due at once.
  if (next.tell.length > 0 && carried === 0) await hastenEscalation(q, row.id);
}

/** Finds contacts of the current step that were not notified, when no step is due. Reasons are a changed
 *  policy, a responder who came on duty, or a removed notification channel. */
async function newcomers(
  q: Query,
  policy: Policy,
  row: EscalationRow,
  all: readonly Contact[],
  deps: Deciding,
): Promise<readonly Contact[]> {
  const known = await contactsOf(q, row.id);
  const found: Contact[] = [];
  for (const one of all) {
    const channel = carrierOf(policy, one.way);
    const address = channel === null ? null : addressOn(deps.lines().get(channel), one);
    const contact = known.find(({ way, address: at }) => way === one.way && at === address);
    const gone = contact !== undefined && !deps.lines().get(contact.channel)?.outbound;
    if (contact === undefined || (gone && !(await hasReached(q, contact.id)))) found.push(one);
  }
  return found;
}

/** Returns the address in the form of the contact rows; null when the channel cannot reach it. */
function addressOn(line: ChannelRuntime | undefined, { way, address }: Contact): string | null {
  if (!line?.outbound) return null;
  return way === "webhook" ? address : (line.address(address)?.toLowerCase() ?? null);
}

/** Enqueues a notification for the contact. A repetition is enqueued only when the last one is not
 *  waiting to be sent. Returns false when no channel carries it. */
async function tell(
  q: Query,
  policy: Policy,
  row: EscalationRow,
  to: Contact,
  now: number,
  deps: Deciding,
): Promise<boolean> {
  const channel = carrierOf(policy, to.way);
  const line = channel === null ? undefined : deps.lines().get(channel);
  const address = addressOn(line, to);
  if (channel === null || address === null) {
    deps.log.error({ escalation: row.number, way: to.way }, "somebody cannot be told: nothing carries it");
    return false;
  }
  const known = await ensureContact(q, {
    id: newId(deps.clock.now()),
    escalation: row.id,
    person: to.person,
    name: to.name,
    way: to.way,
    address,
    channel,
  });
  // The configuration has changed, and the contact's former channel is gone.
  const moved = known.channel !== channel && !deps.lines().get(known.channel)?.outbound;
  const contact = moved ? await moveContact(q, known, channel) : known;
  const id = newId(deps.clock.now());
  const told = { id, contact: contact.id, kind: "told", subject: "", text: null } as const;
  const wait = to.way === "webhook" ? 0 : await groupWait(q, policy, contact, deps.told);
  if (await addNotice(q, told, wait)) return true;
  if (await waitsToBeRead(q, contact.id)) {
    // The pending notification follows the retry schedule of ordinary mail, so its next attempt may be
    // hours away.
    if (contact.conversation !== null) await tryNow(q, contact.conversation);
    return true;
  }
  await addNotice(q, { ...told, kind: "again", subject: String(now) }, wait);
  return true;
}

/** Returns the milliseconds until this address may get the next message, so that notifications are
 *  grouped. */
async function groupWait(
  q: Query,
  policy: Policy,
  { channel, address }: ContactRow,
  told: Told,
): Promise<number> {
  const key = `${channel} ${address}`;
  const known = told.get(key);
  const ago = known === undefined ? await lastTold(q, { channel, address }, policy.group) : known;
  told.set(key, ago);
  // A negative age is a time in the future, after a backward clock step.
  return ago === null || ago < 0 ? 0 : Math.max(0, policy.group - ago);
}
