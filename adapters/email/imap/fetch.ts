// Reading from the open mailbox. No command is ever given while the rows of another one are read: imapflow would
// wait for itself.

import type { FetchMessageObject, ImapFlow } from "imapflow";

/** A message as a listing shows it, before its bytes are fetched. */
export interface Listed {
  readonly uid: number;
  /** Bytes. */
  readonly size: number;
  /** INTERNALDATE, epoch ms; null when the server did not tell. */
  readonly arrived: number | null;
  /** Flags that are no system flags, such as `$Bridgehead`. */
  readonly keywords: readonly string[];
}

/** `raw` is null when the server answered without the bytes. */
export interface Fetched extends Listed {
  readonly raw: Uint8Array | null;
}

/** What stands in for the header of a mail whose bytes are not read. */
export interface Envelope {
  readonly uid: number;
  readonly messageId: string | null;
  /** With angle brackets, or null. */
  readonly inReplyTo: string | null;
  readonly from: { readonly address: string; readonly name: string } | null;
  readonly subject: string;
}

const meta = { uid: true, size: true, internalDate: true, flags: true } as const;

/** Everything with a UID of at least `from`, in order. `N:*` also names the last message when its UID is below N. */
export async function list(client: ImapFlow, from: number): Promise<Listed[]> {
  if (openMailbox(client).exists === 0) {
    // Some servers reject a range in an empty mailbox. Asking all the same shows that the line is alive.
    await client.noop();
    if (openMailbox(client).exists === 0) return [];
  }
  const rows = await rowsOf(client, `${from}:*`, meta);
  return ordered(rows.filter((row) => row.uid >= from).map(listed));
}

/** The listing of these UIDs; those that have gone are left out. */
export async function listOnly(client: ImapFlow, uids: readonly number[]): Promise<Listed[]> {
  if (uids.length === 0 || openMailbox(client).exists === 0) return [];
  const wanted = new Set(uids);
  const rows = await rowsOf(client, uidSet(uids), meta);
  return ordered(rows.filter((row) => wanted.has(row.uid)).map(listed));
}

/** Listing and bytes in one round trip, for the few messages that were just announced. A message longer than
 *  `maxLength` comes without its bytes. */
export async function listWithSource(client: ImapFlow, from: number, maxLength: number): Promise<Fetched[]> {
  if (openMailbox(client).exists === 0) return [];
  const rows = await rowsOf(client, `${from}:*`, { ...meta, source: { start: 0, maxLength } });
  return ordered(
    rows.filter((row) => row.uid >= from).map((row) => ({ ...listed(row), raw: whole(row, maxLength) })),
  );
}

/** The bytes of these messages; `raw` is also null for one that the server left out of its answer. */
export async function sources(
  client: ImapFlow,
  wanted: readonly Listed[],
  maxLength: number,
): Promise<Fetched[]> {
  if (wanted.length === 0) return [];
  const query = { uid: true, source: { start: 0, maxLength } } as const;
  const range = uidSet(wanted.map((one) => one.uid));
  const rows = openMailbox(client).exists === 0 ? [] : await rowsOf(client, range, query);
  const byUid = new Map(rows.map((row) => [row.uid, row]));
  return wanted.map((one) => {
    const row = byUid.get(one.uid);
    return { ...one, raw: row === undefined ? null : bytesOf(row) };
  });
}

/** Sender, subject and id of messages that are not downloaded. */
export async function envelopes(client: ImapFlow, uids: readonly number[]): Promise<Map<number, Envelope>> {
  if (uids.length === 0 || openMailbox(client).exists === 0) return new Map();
  const rows = await rowsOf(client, uidSet(uids), { uid: true, envelope: true });
  return new Map(rows.map((row) => [row.uid, envelopeOf(row)]));
}

/** These header fields of messages, unfolded, by lower-case name; the first field of each name counts. */
export async function headerFields(
  client: ImapFlow,
  uids: readonly number[],
  names: readonly string[],
): Promise<ReadonlyMap<string, string>[]> {
  if (uids.length === 0 || openMailbox(client).exists === 0) return [];
  const rows = await rowsOf(client, uidSet(uids), { uid: true, headers: [...names] });
  return rows.map((row) => {
    const fields = new Map<string, string>();
    const lines = (row.headers?.toString("latin1") ?? "").replace(/\r?\n[ \t]/g, " ").split(/\r?\n/);
    for (const line of lines) {
      const colon = line.indexOf(":");
      const name = line.slice(0, Math.max(0, colon)).trim().toLowerCase();
      if (name !== "" && !fields.has(name)) fields.set(name, line.slice(colon + 1).trim());
    }
    return fields;
  });
}

/** UIDs from `from` on that carry the keyword. */
export async function withKeyword(client: ImapFlow, keyword: string, from: number): Promise<number[]> {
  if (openMailbox(client).exists === 0) return [];
  const found = await client.search({ keyword, uid: `${from}:*` }, { uid: true });
  if (!Array.isArray(found) || !client.usable) throw new Error("searching the mailbox failed");
  return found.filter((uid) => uid >= from);
}

/** UIDs of everything that arrived at or after this time (the server compares whole days). */
export async function arrivedSince(client: ImapFlow, since: number): Promise<number[]> {
  if (openMailbox(client).exists === 0) return [];
  const found = await client.search({ since: new Date(since - 86_400_000) }, { uid: true });
  // imapflow before 2.5.6 answered a search that could not be completed like one without hits.
  if (!Array.isArray(found) || !client.usable) throw new Error("searching the mailbox failed");
  return found;
}

/** The selected mailbox. imapflow answers a fetch without one as if it were empty, so this is asked every time. */
export function openMailbox(client: ImapFlow) {
  if (!client.usable || client.mailbox === false) throw new Error("reading failed: no mailbox is open");
  return client.mailbox;
}

/** `1:3,7` */
export function uidSet(uids: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const uid of [...uids].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && uid <= last[1] + 1) last[1] = uid;
    else ranges.push([uid, uid]);
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}:${to}`)).join(",");
}

/** Every row of the answer. Rejects when another mailbox was opened meanwhile. */
export async function rowsOf(
  client: ImapFlow,
  range: string,
  query: Parameters<ImapFlow["fetchAll"]>[1],
): Promise<FetchMessageObject[]> {
  const before = openMailbox(client);
  const rows = await client.fetchAll(range, query, { uid: true });
  const after = openMailbox(client);
  if (after.path !== before.path || after.uidValidity !== before.uidValidity) {
    throw new Error("reading failed: the mailbox changed under the command");
  }
  return rows.filter((row) => typeof row.uid === "number");
}

function listed(row: FetchMessageObject): Listed {
  const arrived = row.internalDate === undefined ? Number.NaN : new Date(row.internalDate).getTime();
  const keywords = [...(row.flags ?? [])].filter((flag) => !flag.startsWith("\\"));
  return { uid: row.uid, size: row.size ?? 0, arrived: Number.isNaN(arrived) ? null : arrived, keywords };
}

function bytesOf(row: FetchMessageObject): Uint8Array | null {
  return row.source !== undefined && row.source.length > 0 ? row.source : null;
}

/** Null for a source that was cut at the limit. Servers report sizes that are a little wrong, so only this counts. */
function whole(row: FetchMessageObject, maxLength: number): Uint8Array | null {
  const bytes = bytesOf(row);
  return bytes !== null && bytes.length < maxLength ? bytes : null;
}

function envelopeOf(row: FetchMessageObject): Envelope {
  const from = row.envelope?.from?.[0];
  return {
    uid: row.uid,
    messageId: row.envelope?.messageId?.trim() || null,
    inReplyTo: /<[^<>\s]{1,900}>/.exec(row.envelope?.inReplyTo ?? "")?.[0] ?? null,
    from: from?.address ? { address: from.address.toLowerCase(), name: from.name ?? "" } : null,
    subject: row.envelope?.subject ?? "",
  };
}

function ordered<T extends Listed>(rows: T[]): T[] {
  return rows.sort((a, b) => a.uid - b.uid);
}
