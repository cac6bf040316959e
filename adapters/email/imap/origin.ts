// Where a new connection begins to read: at the cursor; at the end of the mailbox on the very first start; or, when
// the server counts anew (another UIDVALIDITY), by arrival time with the core sorting out what it has already.

import type { Channel, Cursor } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import { type Position, readPosition } from "./cursor.ts";
import { list, openMailbox } from "./fetch.ts";

export interface Origin {
  readonly position: Position;
  /** Epoch ms: first look through everything that arrived since, up to `position.uid`. Null: just read on. */
  readonly rescanSince: number | null;
}

/** Clocks differ and servers deliver late: a rescan begins this much before the last mail that was seen. */
const margin = 86_400_000;

/** `history` in ms: how far back the very first start reaches. Reads only. */
export async function originOf(
  channel: Channel,
  client: ImapFlow,
  committed: Cursor | null,
  history: number,
): Promise<Origin> {
  const mailbox = openMailbox(client);
  const uidValidity = validityOf(client);
  if (uidValidity === "0") channel.log.warn({}, "the server gives no usable UIDVALIDITY");
  const now = channel.clock.now();
  const before = committed === null ? null : readPosition(committed);
  const end = { v: 1, mailbox: mailbox.path, uidValidity, uid: await lastUid(client), at: now } as const;
  if (before === null || before.mailbox !== mailbox.path) {
    if (before !== null) channel.log.warn({}, "another mailbox is configured; reading starts at its end");
    const since = now - history;
    return { position: { ...end, since }, rescanSince: history > 0 ? since : null };
  }
  if (before.uidValidity === uidValidity) return { position: before, rescanSince: null };
  channel.log.warn(
    { from: before.uidValidity, to: uidValidity },
    "the mailbox counts anew; looking through it again",
  );
  const since = Math.max(before.since, before.at - margin);
  return { position: { ...end, since: before.since }, rescanSince: since };
}

/** As text; `"0"` for a server that has none, or an invalid one. */
export function validityOf(client: ImapFlow): string {
  const { uidValidity } = openMailbox(client);
  return typeof uidValidity === "bigint" && uidValidity > 0n ? uidValidity.toString() : "0";
}

async function lastUid(client: ImapFlow): Promise<number> {
  const { uidNext, exists } = openMailbox(client);
  if (Number.isInteger(uidNext) && uidNext > 0) return uidNext - 1;
  if (exists === 0) return 0;
  return (await list(client, 1)).at(-1)?.uid ?? 0;
}
