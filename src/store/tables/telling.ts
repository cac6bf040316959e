// Recent notifications of an address and their delivery. Stage tell checks them before it sends more.

import type { Query } from "../driver.ts";
import type { ContactRow } from "./contacts.ts";

/** Returns the milliseconds since the address was last notified; null when that was not within
 *  `withinMs`. Scans from the newest (a CROSS JOIN keeps its order in SQLite), so an address with
 *  thousands of notifications is found at once. */
export async function lastTold(
  q: Query,
  { channel, address }: Pick<ContactRow, "channel" | "address">,
  withinMs: number,
): Promise<number | null> {
  const row = await q.one<{ ago: number }>(
    `SELECT now_ms() - notices.written_at AS ago FROM notices CROSS JOIN contacts
     WHERE notices.written_at > now_ms() - $3 AND notices.kind IN ('told', 'again') AND notices.reply IS NOT NULL
       AND contacts.id = notices.contact AND contacts.channel = $1 AND contacts.address = $2
     ORDER BY notices.written_at DESC LIMIT 1`,
    channel,
    address,
    withinMs,
  );
  return row?.ago ?? null;
}

/** Returns whether a notification of the contact is still unsent; another one would only extend the
 *  queue. Drafts on a channel that no longer serves the contact are ignored. */
export async function waitsToBeRead(q: Query, contact: string): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM notices JOIN contacts ON contacts.id = notices.contact
     LEFT JOIN drafts ON drafts.reply = notices.reply AND drafts.channel = contacts.channel
     WHERE notices.contact = $1 AND notices.kind IN ('told', 'again')
       AND (notices.due_at IS NOT NULL OR drafts.state IN ('queued', 'sending', 'unknown')) LIMIT 1`,
    contact,
  );
  return row !== undefined;
}

/** Returns whether a first or repeated notification was sent to the contact. */
export async function hasReached(q: Query, contact: string): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM notices JOIN drafts ON drafts.reply = notices.reply
     WHERE notices.contact = $1 AND notices.kind IN ('told', 'again') AND drafts.state IN ('sent', 'delivered') LIMIT 1`,
    contact,
  );
  return row !== undefined;
}
