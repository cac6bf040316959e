// Decisions of stage move, on loaded rows. Pure: ids come from the caller.

import { contactsOf, type Policy } from "../../domain/policy.ts";
import { type ChannelRuntimes, canSend } from "../../pipeline/channel-runtime.ts";
import { idsOf } from "../../store/driver.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import type { NewNotification, NotificationRow, TargetRow } from "../../store/tables/responders.ts";
import { type NotificationRecipient, recipient } from "../notify/decide.ts";
import { agentRecipients } from "../webhook/recipients.ts";

/** A target, and whether its responder was notified through it. */
export interface KnownTarget extends TargetRow {
  readonly notified: boolean;
}

/** A notification that its target has not received: not written yet (`due`), or its reply or a draft of it is unsent on
 *  the target's channel. */
export interface UnsentNotification extends NotificationRow {
  readonly escalation: string;
  readonly due: boolean;
}

/** The writes for one acknowledged escalation. */
export interface MovePlan {
  readonly row: EscalationRow;
  /** Targets that keep their address on another channel. */
  readonly moved: readonly Pick<TargetRow, "id" | "channel">[];
  /** New targets of responders whose others are on removed channels. */
  readonly added: readonly TargetRow[];
  /** The target that replaces the one that acknowledged; null: unchanged. */
  readonly owner: string | null;
  /** The channels that responders, or their notifications, move from and to; each pair once. */
  readonly moves: readonly { readonly from: string; readonly to: string }[];
  readonly notifications: readonly NewNotification[];
  /** Ids of due notifications that are not written. */
  readonly ended: readonly string[];
  /** Ids of notifications whose draft stays on the removed channel, and that are among `notifications` again. */
  readonly repeated: readonly string[];
  /** Ids of those that are not. */
  readonly left: readonly string[];
  /** True when a notification is neither written nor repeated. */
  readonly lost: boolean;
  /** Customers' messages that no other channel carries to their responder. */
  readonly failed: readonly UnsentNotification[];
  /** True when no responder gets the customer's next message. */
  readonly unreachable: boolean;
}

/** Plans the moves of the targets whose channel does not run: to another channel for the same address, to another
 *  target of the same responder, or to another address in the policy. A responder without any of these cannot be
 *  notified. The policy's hours do not apply, because the responder has acknowledged. */
export function planMove(
  policy: Policy,
  row: EscalationRow,
  targets: readonly KnownTarget[],
  undelivered: readonly UnsentNotification[],
  lines: ChannelRuntimes,
  newId: () => string,
): MovePlan {
  const gone = targets.filter(({ channel }) => !canSend(lines, channel));
  const contacts = new Map(gone.map((one) => [one.id, contactsFor(policy, row, one, lines)]));
  const moved = gone.flatMap((target) => {
    const same = contacts.get(target.id)?.find((one) => isAt(one, target));
    return same ? [{ id: target.id, channel: same.channel }] : [];
  });
  const channels = new Map(moved.map(({ id, channel }) => [id, channel]));
  const known: TargetRow[] = targets.map((one) => ({ ...one, channel: channels.get(one.id) ?? one.channel }));
  const added: TargetRow[] = [];
  const places = new Map<string, string>(moved.map(({ id }) => [id, id]));
  const owners = targets.filter(({ id, notified }) =>
    row.acknowledged_target === null ? notified : row.acknowledged_target === id,
  );
  const ownOf = ({ id }: TargetRow) => undelivered.filter(({ target }) => target === id);
  for (const target of gone) {
    if (places.has(target.id)) continue;
    const ways = contacts.get(target.id) ?? [];
    const other = otherTarget(target, ways, known, lines);
    const isNeeded = owners.includes(target) || ownOf(target).some(isText);
    const unused = isNeeded ? ways.find((way) => !known.some((one) => isAt(way, one))) : undefined;
    const place = other ?? (unused && newTarget(row, unused, newId()));
    if (place === undefined) continue;
    places.set(target.id, place.id);
    if (other === undefined) added.push(place);
    if (other === undefined) known.push(place);
  }
  const unsent = gone.flatMap(ownOf);
  const texts = unsent.filter(isText);
  const carried = texts.filter(({ target, due }) => places.has(target) && !(due && channels.has(target)));
  const owner = (!channels.has(row.acknowledged_target ?? "") && places.get(row.acknowledged_target ?? "")) || null;
  const isMoving = ({ id }: TargetRow) =>
    channels.has(id) ||
    (owner !== null && id === row.acknowledged_target) ||
    added.some((one) => one.id === places.get(id)) ||
    carried.some(({ target, due }) => target === id && !due);
  const moves = gone.filter(isMoving).flatMap(({ id, channel: from }) => {
    const place = known.find((one) => one.id === places.get(id));
    return place ? [{ from, to: place.channel }] : [];
  });
  return {
    row,
    moved,
    added,
    owner,
    moves: [...new Map(moves.map((one) => [`${one.from} ${one.to}`, one])).values()],
    notifications: carried.map(({ target, kind, subject, text }) => ({
      id: newId(),
      target: places.get(target) ?? target,
      kind,
      subject,
      text,
      inMs: 0,
    })),
    // On a channel for the same address, due notifications are written as they are.
    ended: idsOf(unsent.filter(({ target, due }) => due && !channels.has(target))),
    repeated: idsOf(carried.filter(({ due }) => !due)),
    left: idsOf(texts.filter(({ target, due }) => !due && !places.has(target))),
    lost: unsent.some(({ target, kind, due }) => !places.has(target) && (due || isText({ kind }))),
    failed: texts.filter(({ target, kind }) => kind === "customer" && !places.has(target)),
    unreachable: owners.length > 0 && owners.every((one) => gone.includes(one) && !places.has(one.id)),
  };
}

/** True for a notification whose text is in no other one. */
const isText = ({ kind }: Pick<UnsentNotification, "kind">): boolean => kind === "customer" || kind === "message";

/** Returns the target that gets the notifications of one on a removed channel: of the same responder, or at an address
 *  of the responder. */
function otherTarget(
  target: TargetRow,
  ways: readonly Reachable[],
  known: readonly TargetRow[],
  lines: ChannelRuntimes,
): TargetRow | undefined {
  const others = known.filter(
    (one) =>
      one.id !== target.id &&
      canSend(lines, one.channel) &&
      (one.person === target.person || ways.some((way) => isAt(way, one))),
  );
  return others.find(({ conversation }) => conversation !== null) ?? others[0];
}

function newTarget({ id: escalation }: EscalationRow, { to, channel, address }: Reachable, id: string): TargetRow {
  const { person, name, way } = to;
  return { id, escalation, person, name, way, address, channel, conversation: null, link_until: null };
}

const isAt = ({ to, address }: Reachable, target: TargetRow): boolean =>
  to.way === target.way && address === target.address;

type Reachable = NotificationRecipient & { readonly channel: string; readonly address: string };

const isReachable = (one: NotificationRecipient): one is Reachable => one.channel !== null && one.address !== null;

/** Returns all ways to the responder of the target, in the policy's current version. */
function contactsFor(
  policy: Policy,
  row: EscalationRow,
  { person }: TargetRow,
  lines: ChannelRuntimes,
): readonly Reachable[] {
  const ofAgent = () => agentRecipients(row, lines).filter((one) => one.person === person);
  const agents = policy.agentRecipients ? ofAgent() : [];
  const contacts = policy.responders.has(person) ? contactsOf(policy, person, null) : agents;
  return contacts.map((one) => recipient(policy, one, lines)).filter(isReachable);
}
