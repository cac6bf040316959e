// The selected mailbox: its announcements, requests for its messages, the marks on handled ones, and the position up to
// which it has been read. No command is sent while the rows of another command are read, because imapflow
// would deadlock.

import { channel as point } from "node:diagnostics_channel";
import { type Clock, type Cursor, cursor, day, type Log } from "bridgehead/contract";
import type { FetchMessageObject, ImapFlow } from "imapflow";
import * as z from "zod";
import type { EmailConfig } from "../config.ts";
import { brief } from "../status.ts";

/** A message as a listing shows it, before its bytes are fetched. */
export interface Listed {
  readonly uid: number;
  /** Size in bytes. */
  readonly size: number;
  /** INTERNALDATE, epoch ms; null when the server returned none. */
  readonly arrived: number | null;
  /** Flags other than system flags, such as `$Bridgehead`. */
  readonly keywords: readonly string[];
}

/** `raw` is null when the server's response has no bytes. */
export interface Fetched extends Listed {
  readonly raw: Uint8Array | null;
  /** Why the server does not return the message (`readSources`). */
  readonly failure?: string;
}

const meta = { uid: true, size: true, internalDate: true, flags: true } as const;

/** Returns every message with a UID of at least `from`, in order. `N:*` also returns the last message
 *  when its UID is below N. */
export async function list(client: ImapFlow, from: number): Promise<Listed[]> {
  if (openMailbox(client).exists === 0) {
    // Some servers reject a range in an empty mailbox. The NOOP shows that the connection is alive.
    await client.noop();
    if (openMailbox(client).exists === 0) return [];
  }
  const rows = await rowsOf(client, `${from}:*`, meta);
  return ordered(rows.filter((row) => row.uid >= from).map(listed));
}

/** Returns the listing of these UIDs; deleted messages are left out. */
export function listOnly(client: ImapFlow, uids: readonly number[]): Promise<Listed[]> {
  const wanted = new Set(uids);
  return listSets(client, uidSets(uids), (uid) => wanted.has(uid));
}

/** Returns the listing of sets of UIDs; `isIn` tells whether a UID is in one of them. */
async function listSets(client: ImapFlow, sets: readonly string[], isIn: (uid: number) => boolean): Promise<Listed[]> {
  const found: Listed[] = [];
  for (const set of sets) {
    if (openMailbox(client).exists === 0) break;
    const rows = await rowsOf(client, set, meta);
    for (const row of rows) if (isIn(row.uid)) found.push(listed(row));
  }
  return ordered(found);
}

/** Returns listing and bytes in one round trip, for the few messages that were just announced. A message
 *  longer than `maxLength` is returned without its bytes. */
export async function listWithSource(client: ImapFlow, from: number, maxLength: number): Promise<Fetched[]> {
  if (openMailbox(client).exists === 0) return [];
  const rows = await rowsOf(client, `${from}:*`, { ...meta, source: { start: 0, maxLength } });
  return ordered(rows.filter((row) => row.uid >= from).map((row) => ({ ...listed(row), raw: whole(row, maxLength) })));
}

/** Returns the UIDs at or above `from` that carry the keyword. */
export async function withKeyword(client: ImapFlow, keyword: string, from: number): Promise<number[]> {
  if (openMailbox(client).exists === 0) return [];
  const found = await client.search({ keyword, uid: `${from}:*` }, { uid: true });
  if (!Array.isArray(found) || !client.usable) throw new Error("searching the mailbox failed");
  return found.filter((uid) => uid >= from);
}

/** Messages per search. A server returns their UIDs, of up to ten digits, as one line, which `maxLineLength` bounds. */
const searchStep = 50_000;

/** Returns the UIDs of messages that arrived at or after this time (the server compares whole days), in order. The newest are
 *  searched first: an expunged message moves the others down, to where they are found once more. */
export async function arrivedSince(client: ImapFlow, since: number): Promise<number[]> {
  const uids = new Set<number>();
  for (
    let last = openMailbox(client).exists;
    last > 0;
    last = Math.min(last - searchStep, openMailbox(client).exists)
  ) {
    const seq = `${Math.max(1, last - searchStep + 1)}:${last}`;
    const found = await client.search({ seq, since: new Date(since - day) }, { uid: true });
    // imapflow before 2.5.6 returned an empty result for a search that failed.
    if (!Array.isArray(found) || !client.usable) throw new Error("searching the mailbox failed");
    for (const uid of found) uids.add(uid);
  }
  return [...uids].sort((a, b) => a - b);
}

/** Diagnostics channel: `{ phase: "before" | "after", uids }` around each command that marks. */
const points = point("bridgehead:email.mark");

/** `own`: the channel's mark (`ChannelIdentity.mark`). */
export type Mark = (client: ImapFlow, uids: readonly number[], own: string) => Promise<void>;

/** Marks a whole batch at once. The commit in the core decides what is handled, so a failed mark is logged once
 *  and not retried. The returned promise never rejects. */
export function marker(settings: EmailConfig["mark"], log: Log): Mark {
  let complained = false;
  const complain = (reason: string) => {
    if (!complained) log.warn({ with: settings.with, reason }, "marking handled mail failed");
    complained = true;
  };
  return async (client, uids, own) => {
    if (settings.with === "none" || uids.length === 0) return;
    if (points.hasSubscribers) points.publish({ phase: "before", uids });
    try {
      for (const set of uidSets(uids)) {
        const done = settings.with === "move" ? move(client, set, settings) : flag(client, set, settings, own);
        if (!(await done)) complain("the server did not do it");
      }
    } catch (error) {
      complain(brief(error));
    }
    if (points.hasSubscribers) points.publish({ phase: "after", uids });
  };
}

/** Returns the keyword that names the channel which handled a message. It is set in addition to the
 *  keyword for handled messages. */
export const keywordOf = (keyword: string, mark: string): string => `${keyword}-${mark}`;

/** Only adds flags. The channel's own keyword is set together with the visible flag, where the server
 *  stores keywords. */
async function flag(client: ImapFlow, set: string, settings: EmailConfig["mark"], own: string): Promise<boolean> {
  const wanted = settings.with === "keyword" ? settings.keyword : "\\Seen";
  const permitted = openMailbox(client).permanentFlags;
  const keeps = (name: string) => !permitted || permitted.has(name) || (!name.startsWith("\\") && permitted.has("\\*"));
  const flags = [wanted, keywordOf(settings.keyword, own)].filter(keeps);
  if (!flags.includes(wanted)) return false;
  return client.messageFlagsAdd(set, flags, { uid: true, silent: true });
}

/** Marks the messages that were committed before a connection or the process ended, and whose marks are unknown. Without
 *  it they look unhandled, and a person would answer them again. Only at the start of a connection. */
export async function markRest(
  client: ImapFlow,
  mark: Mark,
  { uid, marked = uid }: Position,
  { mark: { with: how, keyword } }: Pick<EmailConfig, "mark">,
  own: string,
): Promise<void> {
  if (how === "none" || marked >= uid) return;
  // UIDs may have gaps of any length (RFC 3501, 2.3.1.1), so they are not enumerated.
  const found = await listSets(client, [`${marked + 1}:${uid}`], (one) => one > marked && one <= uid);
  await mark(client, unmarked(found, keyword, own), own);
}

/** Returns the UIDs of the messages without the channel's own keyword: a person may have made the others unread. */
export function unmarked(mails: readonly Listed[], keyword: string, own: string): number[] {
  const mark = keywordOf(keyword, own).toLowerCase();
  return mails.filter(({ keywords }) => !keywords.some((one) => one.toLowerCase() === mark)).map(({ uid }) => uid);
}

/** Without MOVE or UIDPLUS a move could expunge messages that other clients deleted, so the message is not moved. */
async function move(client: ImapFlow, set: string, settings: EmailConfig["mark"]): Promise<boolean> {
  if (!client.capabilities.has("MOVE") && !client.capabilities.has("UIDPLUS")) return false;
  return Boolean(await client.messageMove(set, settings.folder, { uid: true }));
}

/** Returns the selected mailbox; throws without one. imapflow returns an empty result for a fetch
 *  without a selected mailbox, so every request checks this. */
export function openMailbox(client: ImapFlow) {
  if (!client.usable || client.mailbox === false) throw new Error("reading failed: no mailbox is open");
  return client.mailbox;
}

/** Returns a UID set such as `1:3,7`. */
export function uidSet(uids: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const uid of [...uids].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && uid <= last[1] + 1) last[1] = uid;
    else ranges.push([uid, uid]);
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}:${to}`)).join(",");
}

/** Characters of one set of UIDs. Servers need not accept a line of more than 8,192 octets (RFC 7162, 4). */
const longestSet = 7000;

/** Returns sets of all these UIDs, each for a command of its own. */
function uidSets(uids: readonly number[]): string[] {
  const sets: string[] = [];
  for (const range of uids.length === 0 ? [] : uidSet(uids).split(",")) {
    const last = sets.at(-1);
    if (last === undefined || last.length + 1 + range.length > longestSet) sets.push(range);
    else sets[sets.length - 1] = `${last},${range}`;
  }
  return sets;
}

/** Returns every row of the response. Rejects when another mailbox was selected before the end. */
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

/** Returns null for a row without bytes. */
export function bytesOf(row: FetchMessageObject): Uint8Array | null {
  return row.source !== undefined && row.source.length > 0 ? row.source : null;
}

/** Returns null for a source that was truncated at the limit. Servers report slightly wrong sizes, so
 *  only the downloaded length counts. */
function whole(row: FetchMessageObject, maxLength: number): Uint8Array | null {
  const bytes = bytesOf(row);
  return bytes !== null && bytes.length < maxLength ? bytes : null;
}

function ordered<T extends Listed>(rows: T[]): T[] {
  return rows.sort((a, b) => a.uid - b.uid);
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

const asleep = () => {};

/** The new messages that the server announces on one connection. Listens until the signal aborts, which also wakes the
 *  loop. */
export class Announcements {
  readonly #client: ImapFlow;
  readonly #signal: AbortSignal;
  readonly #idles: boolean;
  #count = 0;
  #changed = false;
  #wake: () => void = asleep;

  constructor(client: ImapFlow, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
    this.#idles = client.capabilities.has("IDLE") || client.capabilities.has("IMAP4REV2");
    client.on("exists", ({ count, prevCount }) => this.#note(Math.max(0, count - prevCount)));
    // A server that changes UIDVALIDITY closes and reopens the mailbox during the session.
    client.on("mailboxOpen", () => this.#note(0));
    signal.addEventListener("abort", () => this.#wake(), { once: true });
  }

  #note(count: number): void {
    this.#count += count;
    this.#changed = true;
    this.#wake();
  }

  /** Idles until an event occurs. Returns the number of messages announced since the last call; after at most `ms` it
   *  returns 0, for a scheduled poll. An announcement during a poll makes the next call return at once. */
  async next(clock: Clock, ms: number): Promise<number> {
    if (!this.#changed && !this.#signal.aborted) {
      // imapflow ends IDLE when the next command is sent.
      if (this.#idles) this.#client.idle().catch(() => {});
      const timer = new AbortController();
      const wake = () => timer.abort(null);
      this.#wake = wake;
      await clock.sleep(ms, timer.signal);
      this.#wake = asleep;
    }
    const count = this.#count;
    this.#count = 0;
    this.#changed = false;
    return count;
  }
}

/** How far a mailbox has been read. Starts at a committed position. A message to retry blocks the cursor; later messages
 *  are still settled, and are not accepted twice. */
export class ReadProgress {
  #position: Position;
  /** Settled UIDs above the position, with a gap below them. */
  readonly #done = new Set<number>();
  /** Settled UIDs whose marks are not confirmed. */
  readonly #unmarked = new Set<number>();
  /** The latest listing: UIDs and arrival times above the position, in order. */
  #listing: readonly Listed[] = [];

  constructor(start: Position) {
    this.#position = start;
  }

  /** The position as of the last returned cursor. */
  get position(): Position {
    return this.#position;
  }

  /** True while settled messages follow an open one. A listing from the position on then returns them again. */
  get gap(): boolean {
    return this.#done.size > 0;
  }

  /** Returns the messages of a fresh listing (from the position on, in order) that are not settled yet. */
  open(listed: readonly Listed[]): Listed[] {
    this.#listing = listed;
    return listed.filter((one) => one.uid > this.#position.uid && !this.#done.has(one.uid));
  }

  /** Records these UIDs as settled and returns the cursor to commit in the same transaction. */
  finish(uids: readonly number[]): Cursor {
    let { uid: reached, at } = this.#position;
    for (const uid of uids) {
      if (uid > reached) this.#done.add(uid);
      this.#unmarked.add(uid);
    }
    let passed = 0;
    for (const one of this.#listing) {
      if (one.uid > reached && !this.#done.delete(one.uid)) break;
      reached = Math.max(reached, one.uid);
      at = Math.max(at, one.arrived ?? 0);
      passed += 1;
    }
    this.#listing = this.#listing.slice(passed);
    let marked = reached;
    for (const uid of this.#unmarked) marked = Math.min(marked, uid - 1);
    this.#position = { ...this.#position, uid: reached, marked, at };
    return writePosition(this.#position);
  }

  /** Call when the marks of these messages are set, or were refused. */
  confirmMarks(uids: readonly number[]): void {
    for (const uid of uids) this.#unmarked.delete(uid);
  }
}

const schema = z.object({
  v: z.literal(1),
  mailbox: z.string(),
  uidValidity: z.string(),
  /** Every message with a UID up to this one has been accepted. */
  uid: z.int().min(0),
  /** Every message with a UID up to this one has been marked as well. Default: `uid`. */
  marked: z.int().min(0).optional(),
  /** Epoch ms of the newest arrival time among the accepted messages. A rescan begins some time before it. */
  at: z.number(),
  /** Epoch ms: messages that arrived earlier predate the first start and are never read. */
  since: z.number(),
  /** From this UID on, marks of another daemon mean that it works on this mailbox now. It is where the
   *  channel with this mark began. */
  watch: z.object({ mark: z.string(), uid: z.int().min(1) }).optional(),
});

export type Position = Readonly<z.output<typeof schema>>;

/** Serializes the position for `channel.accept`. */
export function writePosition(position: Position): Cursor {
  return cursor(JSON.stringify(position));
}

/** Throws an error on any format that this version did not write: a silent restart would lose or repeat messages. */
export function readPosition(text: Cursor): Position {
  const parsed = schema.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(`reading the stored position failed: ${parsed.error.message}`);
  return parsed.data;
}
