// Determines where a new connection starts to read. The default is the cursor. On the very first start it
// is the arrival time, from the moment at which the store first ran the channel. When UIDVALIDITY changed,
// it is the arrival time as well, and the core deduplicates known messages.

import type { Channel, ChannelIdentity, Cursor } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import { type Position, readPosition } from "./cursor.ts";
import { list, openMailbox } from "./fetch.ts";

export interface Origin {
  readonly position: Position;
  /** Epoch ms: first rescan all messages that arrived since, up to `position.uid`. Null: no rescan. */
  readonly rescanSince: number | null;
  /** True when the mailbox was never read before. The position must then be committed first. */
  readonly isNew: boolean;
}

/** In ms. Clocks differ and servers deliver late, so a rescan begins this long before the last message
 *  that was read. */
const margin = 86_400_000;

/** `history` in ms: how long before its first start the channel reads. Does not write. */
export async function originOf(
  channel: Channel,
  identity: ChannelIdentity,
  client: ImapFlow,
  committed: Cursor | null,
  history: number,
): Promise<Origin> {
  const mailbox = openMailbox(client);
  const uidValidity = validityOf(client);
  if (uidValidity === "0") channel.log.warn({}, "the server gives no usable UIDVALIDITY");
  const now = channel.clock.now();
  const before = committed === null ? null : readPosition(committed);
  const uid = await lastUid(client);
  const watch = { mark: identity.mark, uid: uid + 1 };
  const end = { v: 1, mailbox: mailbox.path, uidValidity, uid, at: now, watch } as const;
  if (before === null) {
    // The first login may come long after the channel was configured. Messages that arrived in between are
    // new.
    const since = identity.since.getTime() - history;
    return { position: { ...end, since }, rescanSince: since, isNew: true };
  }
  if (before.mailbox !== mailbox.path) {
    channel.log.warn({}, "another mailbox is configured; reading starts at its end");
    const since = now - history;
    return { position: { ...end, since }, rescanSince: history > 0 ? since : null, isNew: true };
  }
  if (before.uidValidity === uidValidity) {
    const same = before.watch?.mark === identity.mark;
    return { position: same ? before : { ...before, watch }, rescanSince: null, isNew: false };
  }
  channel.log.warn(
    { from: before.uidValidity, to: uidValidity },
    "the mailbox counts anew; looking through it again",
  );
  const since = Math.max(before.since, before.at - margin);
  return { position: { ...end, since: before.since }, rescanSince: since, isNew: false };
}

/** Returns UIDVALIDITY as text; `"0"` for a server that returns none or an invalid one. */
export function validityOf(client: ImapFlow): string {
  const { uidValidity } = openMailbox(client);
  return typeof uidValidity === "bigint" && uidValidity > 0n ? uidValidity.toString() : "0";
}

/** Returns 0 for a mailbox that never held a message. */
export async function lastUid(client: ImapFlow): Promise<number> {
  const { uidNext, exists } = openMailbox(client);
  if (Number.isInteger(uidNext) && uidNext > 0) return uidNext - 1;
  if (exists === 0) return 0;
  return (await list(client, 1)).at(-1)?.uid ?? 0;
}
