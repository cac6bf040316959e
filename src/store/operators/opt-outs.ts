// Operator commands for opt-outs: opt a person out of a channel, undo it, and list the addresses that get nothing.

import type { Query } from "../driver.ts";
import { recordAction } from "../tables/actions.ts";
import { allOwn, removeSuppression, type Suppression, suppress, suppressionsOf } from "../tables/suppressions.ts";
import { dropEvent } from "./inbox.ts";
import type { RowFilter } from "./outbox.ts";
import type { Operator } from "./repair.ts";

interface Suppressed extends Suppression {
  readonly channel: string;
  readonly address: string;
}

export interface Lifted extends Suppressed {
  /** Our addresses out of which the person has opted; that stays. */
  readonly stays: readonly string[];
}

/** A suppressed address. That of an erased person is a keyed hash. */
export interface OptOut extends Suppressed {
  /** Epoch milliseconds. */
  readonly updated_at: number;
}

/** Lists suppressed addresses, the last suppressed ones first. */
export function listOptOuts(q: Query, { channel = "", since = 0, limit }: RowFilter): Promise<OptOut[]> {
  return q.all<OptOut>(
    `SELECT channel, address, own_address, source, reason, updated_at FROM suppressions
     WHERE active = 1 AND (channel = $1 OR $1 = '') AND updated_at >= $2
     ORDER BY updated_at DESC, channel, address, own_address LIMIT $3`,
    channel,
    since,
    limit,
  );
}

/** A person on one channel: an address, or the sender of a message and its Reply-To. */
export interface OptOutTarget {
  readonly channel: string;
  readonly addresses: readonly string[];
  /** The message that was named. */
  readonly message?: { readonly id: number; readonly state: string };
}

/** Returns the sender of a message. Throws when the number is unknown, when the event is no message, and when retention
 *  has erased the sender. */
export async function senderOf(q: Query, id: number): Promise<OptOutTarget> {
  const event = await q.one<{ channel: string; kind: string; sender: string | null; state: string; body: string }>(
    "SELECT channel, kind, sender, state, body FROM events WHERE id = $1",
    id,
  );
  if (event?.kind !== "message") throw new Error(`there is no message ${id} (see inbox list)`);
  if (event.sender === null) throw new Error(`the sender of message ${id} was forgotten (retention)`);
  const { replyTo } = JSON.parse(event.body) as { replyTo?: { address: string } };
  const answered = replyTo?.address.toLowerCase() ?? event.sender;
  const addresses = [...new Set([event.sender, answered])];
  return { channel: event.channel, addresses, message: { id, state: event.state } };
}

export interface OptedOut {
  readonly channel: string;
  readonly address: string;
  /** Replies to the address that wait; each is dropped when it becomes due. */
  readonly waiting: number;
  /** The person's own opt-out, or the provider's report of it, which stays as it is. */
  readonly earlier: Suppression | null;
}

/** Suppresses the addresses of a person, for messages from all our addresses of the channel. Replies that wait are dropped when they become due, and questions before they
 *  are asked. The named message is dropped when it is held or failed. An opt-out of the person stays as it is, because
 *  an operator could lift the new one. */
export async function optOut(q: Query, person: OptOutTarget, { actor, reason }: Operator): Promise<OptedOut[]> {
  const { channel, addresses, message } = person;
  const why = reason ? `: ${reason}` : "";
  const done: OptedOut[] = [];
  for (const address of addresses) {
    const own = (await suppressionsOf(q, channel, address)).filter(isOwn);
    const earlier = own.find((one) => one.own_address === allOwn) ?? null;
    if (earlier === null) await suppress(q, channel, address, `opted out by ${actor}${why}`, { source: "operator" });
    const row = await q.one<{ count: number }>(
      `SELECT COUNT(*) AS count FROM drafts
       WHERE channel = $1 AND open = 1 AND state = 'queued' AND forced = 0 AND recipient = $2`,
      channel,
      address.toLowerCase(),
    );
    done.push({ channel, address, waiting: row?.count ?? 0, earlier: earlier ?? own[0] ?? null });
  }
  if (message) {
    await recordAction(q, { action: "opt-out", actor, detail: reason ?? null }, { event: message.id });
    if (message.state === "held" || message.state === "failed")
      await dropEvent(q, message.id, actor, `the sender was opted out${why}`);
  }
  return done;
}

/** Lifts the suppressions of a person that an operator made, or that bounces caused. Returns them. Throws when there is
 *  none, and when the person has opted out: then only their START counts, and the provider would refuse the text. Opt-outs
 *  from single addresses stay, and are returned as well. */
export async function undoOptOut(q: Query, person: OptOutTarget, { actor, reason }: Operator): Promise<Lifted[]> {
  const { channel, addresses, message } = person;
  const lifted: Lifted[] = [];
  for (const address of addresses) {
    const all = await suppressionsOf(q, channel, address);
    const own = all.filter(isOwn);
    const others = all.filter((one) => !isOwn(one));
    const staying = own.find((one) => others.length === 0 || one.own_address === allOwn);
    if (staying) throw new Error(`${address} stays opted out of channel ${channel}: ${remedies[staying.source]}`);
    const stays = own.map((one) => one.own_address);
    for (const { stored, ...found } of others) {
      await removeSuppression(q, channel, stored, found.own_address);
      lifted.push({ ...found, channel, address, stays });
    }
  }
  if (lifted.length === 0) throw new Error(`${addresses.join(", ")} is not opted out of channel ${channel}`);
  if (message) await recordAction(q, { action: "opt-in", actor, detail: reason ?? null }, { event: message.id });
  return lifted;
}

type Own = Suppression & { readonly source: keyof typeof remedies };

/** True for an opt-out of the person. */
const isOwn = <T extends Suppression>(one: T): one is T & Own => one.source in remedies;

const remedies = {
  stop: "the person said STOP, and only their START lifts it",
  provider: "the provider has recorded it, and only the person's START to the same number lifts it there and here",
} as const;
