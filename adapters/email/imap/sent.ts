// The Sent folder: files copies, searches it, and determines from it whether a draft with unknown outcome was sent.
// It uses a separate connection, opened when a request is queued and closed soon after, so that it never blocks
// reading or sending.

import { channel as point } from "node:diagnostics_channel";
import { type Clock, externalId, type Finding, type Log, type PastAttempt } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { Identity } from "../parse/headers.ts";
import type { EmailDraft } from "../smtp/send.ts";
import { brief } from "../status.ts";
import type { EmailTiming } from "../timing.ts";
import { type ConnectionOptions, type ImapConnection, openConnection } from "./connection.ts";
import { headerFields } from "./header-fields.ts";
import { arrivedSince, openMailbox } from "./mailbox.ts";

/** `{ phase: "before" | "after", messageId }` around each copy that is filed. */
const points = point("bridgehead:email.sent-copy");

export interface SentFolderOptions {
  readonly connection: ConnectionOptions;
  /** `auto`: the folder that the server marks as the Sent folder. */
  readonly folder: string;
  readonly log: Log;
}

/** Limits of the queue: number of copies and total bytes. Copies beyond either limit are dropped. */
const pendingLimit = 1000;
const pendingBytes = 32_000_000;

interface SentJob {
  /** `open`: false when the server has no Sent folder. */
  readonly run: (client: ImapFlow, open: boolean) => Promise<void>;
  /** In bytes. */
  readonly size: number;
  readonly fail: (error: unknown) => void;
}

/** The Sent folder of one channel. Opens no connection until the first request. */
export class SentFolder {
  readonly #options: SentFolderOptions;
  readonly #queue: SentJob[] = [];
  #working = false;
  #wake: () => void = () => {};
  #closing = false;
  #idle = Promise.resolve();
  #missing = false;

  constructor(options: SentFolderOptions) {
    this.#options = options;
  }

  /** Queues a copy for filing. Best effort: it never throws, and no other state depends on it. */
  file(messageId: string, bytes: Buffer): void {
    const { log } = this.#options;
    if (this.#missing) return;
    const size = bytes.length;
    const waiting = this.#queue.reduce((sum, job) => sum + job.size, size);
    if (this.#queue.length >= pendingLimit || waiting > pendingBytes) {
      log.warn({ pending: this.#queue.length }, "filing a copy of sent mail skipped: queue full");
      return;
    }
    const append = (again: boolean, fail: SentJob["fail"]) =>
      this.#add({ run: (client, open) => this.#append(client, open, messageId, bytes, again), size, fail });
    append(false, () =>
      append(true, (error) => log.warn({ reason: brief(error) }, "filing a copy of sent mail failed")),
    );
  }

  /** Returns whether a message with this Message-ID is there. Returns null when there is no such folder;
   *  rejects when it cannot be read. */
  has(messageId: string): Promise<boolean | null> {
    return this.#read(async (client, open) => (open ? search(client, messageId) : null));
  }

  /** Returns the ids that our responses filed since then (epoch ms) cite in In-Reply-To and References;
   *  empty without such a folder. Rejects when it cannot be read. */
  answered(since: number, self: Identity): Promise<ReadonlySet<string>> {
    return this.#read(async (client, open) => (open ? cited(client, since, self) : new Set<string>()));
  }

  /** Files the queued copies until the signal aborts, then closes the connection. */
  async close(signal: AbortSignal): Promise<void> {
    this.#closing = true;
    this.#wake();
    await Promise.race([this.#idle, aborted(signal)]);
    const pending = this.#queue.splice(0).length;
    if (pending > 0) this.#options.log.warn({ pending }, "filing copies of sent mail: shutdown timeout");
  }

  #read<T>(read: (client: ImapFlow, open: boolean) => Promise<T>): Promise<T> {
    return new Promise((resolve, fail) => {
      this.#add({ run: async (client, open) => resolve(await read(client, open)), size: 0, fail });
    });
  }

  #add(job: SentJob): void {
    this.#queue.push(job);
    this.#wake();
    if (!this.#working) this.#idle = this.#work();
  }

  async #work(): Promise<void> {
    this.#working = true;
    let connection: ImapConnection | null = null;
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
      try {
        if (connection === null || !connection.client.usable) connection = await connect(this.#options);
        await job.run(connection.client, connection.client.mailbox !== false);
      } catch (error) {
        connection?.client.close();
        connection = null;
        job.fail(error);
      }
      if (this.#queue.length === 0 && connection !== null && !this.#closing) await this.#quiet();
    }
    this.#working = false;
    connection?.client.close();
  }

  /** Resolves when new work is queued, or when the idle time is over. */
  #quiet(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      AbortSignal.timeout(this.#options.connection.timing.sentIdle).addEventListener("abort", () => resolve(), {
        once: true,
      });
    });
  }

  async #append(client: ImapFlow, open: boolean, messageId: string, bytes: Buffer, again: boolean): Promise<void> {
    if (!open) {
      const { folder, log } = this.#options;
      if (!this.#missing) log.warn({ folder }, "no Sent folder: copies of sent mail are not filed");
      this.#missing = true;
      return;
    }
    // The first attempt may have succeeded before its connection failed.
    if (again && (await search(client, messageId))) return;
    if (points.hasSubscribers) points.publish({ phase: "before", messageId });
    const done = await client.append(openMailbox(client).path, bytes, ["\\Seen"]);
    if (!done) throw new Error("the server did not take the copy");
    if (points.hasSubscribers) points.publish({ phase: "after", messageId });
  }
}

/** Returns a connection with the Sent folder selected, or with none when the server has no such folder. */
async function connect(options: SentFolderOptions): Promise<ImapConnection> {
  const open = () => openConnection(options.connection, AbortSignal.timeout(options.connection.timing.sentConnect));
  const connection = await open();
  try {
    const path = options.folder === "auto" ? await specialFolder(connection.client) : options.folder;
    if (path !== null) await connection.client.mailboxOpen(path);
    return connection;
  } catch (error) {
    connection.client.close();
    if ((error as { mailboxMissing?: boolean }).mailboxMissing !== true) throw error;
    return open();
  }
}

/** Returns the folder marked \Sent (RFC 6154), or one with a usual name. */
async function specialFolder(client: ImapFlow): Promise<string | null> {
  const folders = await client.list();
  const usual = /^sent( (items|messages|mail))?$/i;
  const found =
    folders.find((folder) => folder.specialUse === "\\Sent") ?? folders.find((folder) => usual.test(folder.name));
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

/** A copy in the folder means sent, because we file copies only of messages that the server accepted.
 *  Absence means not sent only when the provider is known to file every message under our Message-ID. */
export async function reconcile(
  folder: SentFolder,
  filing: Filing,
  { clock, timing }: { readonly clock: Clock; readonly timing: EmailTiming },
  draft: EmailDraft,
  attempt: PastAttempt,
  signal: AbortSignal,
): Promise<Finding> {
  const found = await Promise.race([folder.has(draft.messageId).catch(() => undefined), aborted(signal)]);
  if (found === true) return { kind: "sent", id: externalId(draft.messageId) };
  if (found === undefined) return { kind: "unsure", lookAgainAfterMs: timing.lookup };
  if (found === null || !filing.byProvider || !filing.keepsMessageId) return { kind: "unsure" };
  const left = attempt.startedAt.getTime() + timing.filing - clock.now();
  return left > 0 ? { kind: "unsure", lookAgainAfterMs: left } : { kind: "not-sent" };
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
