// The Sent folder: files copies, searches it, and determines from it whether a draft with unknown outcome was sent.
// It uses a separate connection, opened when a request is queued and closed soon after, so that it never blocks
// reading or sending.

import { channel as point } from "node:diagnostics_channel";
import { type Clock, externalId, type Log, type PastAttempt, type Verdict } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { Identity } from "../parties.ts";
import type { EmailDraft } from "../smtp/compose.ts";
import { brief } from "../status.ts";
import { type ConnectionOptions, type ImapConnection, openConnection } from "./connection.ts";
import { arrivedSince, headerFields, openMailbox } from "./mailbox.ts";

/** `{ phase: "before" | "after", messageId }` around each copy that is filed. */
const points = point("bridgehead:email.sent-copy");

export interface SentFolder {
  /** Queues a copy for filing. Best effort: it never throws, and no other state depends on it. */
  file(messageId: string, bytes: Buffer): void;
  /** Returns whether a message with this Message-ID is there. Returns null when there is no such folder;
   *  rejects when it cannot be read. */
  has(messageId: string): Promise<boolean | null>;
  /** Returns the ids that our responses filed since then (epoch ms) cite in In-Reply-To and References;
   *  empty without such a folder. Rejects when it cannot be read. */
  answered(since: number, self: Identity): Promise<ReadonlySet<string>>;
  /** Files the queued copies until the signal aborts, then closes the connection. */
  close(signal: AbortSignal): Promise<void>;
}

export interface SentFolderOptions {
  readonly connection: ConnectionOptions;
  /** `auto`: the folder that the server marks as the Sent folder. */
  readonly folder: string;
  readonly log: Log;
}

/** Limits of the queue: number of copies and total bytes. Copies beyond either limit are dropped. */
const pendingLimit = 1000;
const pendingBytes = 32_000_000;
const idleMs = 10_000;
const patience = 60_000;

type SentJob = (client: ImapFlow, open: boolean) => Promise<void>;

/** Opens no connection until the first request. */
export function sentFolder(options: SentFolderOptions): SentFolder {
  const { log } = options;
  const queue: { readonly job: SentJob; readonly size: number; readonly fail: (error: unknown) => void }[] =
    [];
  let working = false;
  let poke: () => void = () => {};
  let closing = false;
  let idle = Promise.resolve();
  let missing = false;

  function add(job: SentJob, size: number, fail: (error: unknown) => void): void {
    queue.push({ job, size, fail });
    poke();
    if (!working) idle = work();
  }

  async function work(): Promise<void> {
    working = true;
    let connection: ImapConnection | null = null;
    while (queue.length > 0) {
      const next = queue.shift();
      try {
        if (connection === null || !connection.client.usable) connection = await connect(options);
        await next?.job(connection.client, connection.client.mailbox !== false);
      } catch (error) {
        connection?.client.close();
        connection = null;
        next?.fail(error);
      }
      if (queue.length === 0 && connection !== null && !closing) await quiet();
    }
    working = false;
    connection?.client.close();
  }
  /** Resolves when new work is queued, or when the idle time is over. */
  function quiet(): Promise<void> {
    return new Promise((resolve) => {
      poke = resolve;
      AbortSignal.timeout(idleMs).addEventListener("abort", () => resolve(), { once: true });
    });
  }

  async function append(client: ImapFlow, open: boolean, messageId: string, bytes: Buffer, again: boolean) {
    if (!open) {
      if (!missing) log.warn({ folder: options.folder }, "no Sent folder: copies of sent mail are not filed");
      missing = true;
      return;
    }
    // The first attempt may have succeeded before its connection failed.
    if (again && (await search(client, messageId))) return;
    if (points.hasSubscribers) points.publish({ phase: "before", messageId });
    const done = await client.append(openMailbox(client).path, bytes, ["\\Seen"]);
    if (!done) throw new Error("the server did not take the copy");
    if (points.hasSubscribers) points.publish({ phase: "after", messageId });
  }

  return {
    file(messageId, bytes) {
      if (missing) return;
      const waiting = queue.reduce((sum, entry) => sum + entry.size, bytes.length);
      if (queue.length >= pendingLimit || waiting > pendingBytes) {
        log.warn({ pending: queue.length }, "filing a copy of sent mail skipped: queue full");
        return;
      }
      const giveUp = (error: unknown) =>
        log.warn({ reason: brief(error) }, "filing a copy of sent mail failed");
      const retry = () =>
        add((client, open) => append(client, open, messageId, bytes, true), bytes.length, giveUp);
      add((client, open) => append(client, open, messageId, bytes, false), bytes.length, retry);
    },
    has: (messageId) =>
      new Promise((resolve, reject) => {
        add(async (client, open) => resolve(open ? await search(client, messageId) : null), 0, reject);
      }),
    answered: (since, self) =>
      new Promise((resolve, reject) => {
        const job: SentJob = async (client, open) =>
          resolve(open ? await cited(client, since, self) : new Set());
        add(job, 0, reject);
      }),
    async close(signal) {
      closing = true;
      poke();
      const late = new Promise<void>((resolve) =>
        signal.addEventListener("abort", () => resolve(), { once: true }),
      );
      await Promise.race([idle, late]);
      if (queue.length > 0)
        log.warn({ pending: queue.length }, "filing copies of sent mail: shutdown timeout");
      queue.length = 0;
    },
  };
}

/** Returns a connection with the Sent folder selected, or with none when the server has no such folder. */
async function connect(options: SentFolderOptions): Promise<ImapConnection> {
  const connection = await openConnection(options.connection, AbortSignal.timeout(patience));
  try {
    const path = options.folder === "auto" ? await specialFolder(connection.client) : options.folder;
    if (path !== null) await connection.client.mailboxOpen(path);
    return connection;
  } catch (error) {
    connection.client.close();
    if ((error as { mailboxMissing?: boolean }).mailboxMissing !== true) throw error;
    return openConnection(options.connection, AbortSignal.timeout(patience));
  }
}

/** Returns the folder marked \Sent (RFC 6154), or one with a usual name. */
async function specialFolder(client: ImapFlow): Promise<string | null> {
  const folders = await client.list();
  const usual = /^sent( (items|messages|mail))?$/i;
  const found =
    folders.find((folder) => folder.specialUse === "\\Sent") ??
    folders.find((folder) => usual.test(folder.name));
  return found?.path ?? null;
}

/** Number of message headers per request. */
const headerBatch = 500;

/** Reads only messages that we sent, recognized by Message-ID, or by our loop header where the server
 *  replaces Message-IDs. */
async function cited(client: ImapFlow, since: number, self: Identity): Promise<Set<string>> {
  const uids = await arrivedSince(client, since);
  const names = ["message-id", "in-reply-to", "references", "x-bridgehead-hops"];
  const ids = new Set<string>();
  for (let at = 0; at < uids.length; at += headerBatch) {
    for (const fields of await headerFields(client, uids.slice(at, at + headerBatch), names)) {
      const ours = self.keyOf(fields.get("message-id") ?? "") !== null || fields.has("x-bridgehead-hops");
      if (!ours) continue;
      const text = `${fields.get("in-reply-to") ?? ""} ${fields.get("references") ?? ""}`;
      for (const [id] of text.matchAll(/<[^<>\s]{1,900}>/g)) ids.add(id);
    }
  }
  return ids;
}

async function search(client: ImapFlow, messageId: string): Promise<boolean> {
  if (openMailbox(client).exists === 0) {
    await client.noop();
    if (openMailbox(client).exists === 0) return false;
  }
  const found = await client.search({ header: { "message-id": messageId } }, { uid: true });
  // imapflow before 2.5.6 returned an empty result for a search that failed.
  if (!Array.isArray(found) || !client.usable) throw new Error("searching the folder for sent mail failed");
  return found.length > 0;
}

export interface Filing {
  /** True when the provider files every sent message in Sent. */
  readonly byProvider: boolean;
  /** True when the filed message keeps the Message-ID we gave it. */
  readonly keepsMessageId: boolean;
}

/** A provider may file a copy late. Before this time has passed, absence proves nothing. */
const grace = 120_000;
const lookAgainMs = 60_000;

/** A copy in the folder means sent, because we file copies only of messages that the server accepted.
 *  Absence means not sent only when the provider is known to file every message under our Message-ID. */
export async function reconcile(
  folder: SentFolder,
  filing: Filing,
  clock: Clock,
  draft: EmailDraft,
  attempt: PastAttempt,
  signal: AbortSignal,
): Promise<Verdict> {
  const found = await Promise.race([folder.has(draft.messageId).catch(() => undefined), aborted(signal)]);
  if (found === true) return { kind: "sent", id: externalId(draft.messageId) };
  if (found === undefined) return { kind: "unsure", lookAgainAfterMs: lookAgainMs };
  if (found === null || !filing.byProvider || !filing.keepsMessageId) return { kind: "unsure" };
  const left = attempt.startedAt.getTime() + grace - clock.now();
  return left > 0 ? { kind: "unsure", lookAgainAfterMs: left } : { kind: "not-sent" };
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
