// The core's side for tests of this adapter: a channel in memory, a supervisor that starts `run` again as the core
// does, attempts that remember their crossing, configurations for the local servers.

import { type Attempt, type Inbound, type Reply, type SendKey, sendKey, threadToken } from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import type * as z from "zod";
import { type EmailConfig, config as schema } from "../../../adapters/email/config.ts";
import email from "../../../adapters/email/index.ts";
import type { MailStore } from "./dovecot.ts";

export type Settings = z.input<typeof schema>;

/** A configuration for servers on 127.0.0.1, with short times. */
export function settingsFor(imapPort: number, smtpPort: number, more: Partial<Settings> = {}): EmailConfig {
  const server = { host: "127.0.0.1", tls: "none" } as const;
  return schema.parse({
    address: "support@example.com",
    sent_folder: "none",
    ...more,
    imap: { ...server, port: imapPort, user: "support", password: "secret", poll: "30s", ...more.imap },
    smtp: { ...server, port: smtpPort, timeout: "5s", ...more.smtp },
  });
}

/** The adapter on a fresh channel, or on one that an earlier process has used. */
export function adapterFor(settings: EmailConfig, channel: RecordingChannel = recordingChannel()) {
  return { channel, adapter: email.create(channel, settings) };
}

export interface Supervised {
  /** Errors that `run` was restarted after. */
  readonly errors: readonly Error[];
  /** Starts so far. */
  readonly starts: number;
  /** Aborts and resolves with the milliseconds it took `run` to end, those not counted in which the machine stood still. */
  stop(): Promise<number>;
}

/** Starts `run` with the last committed cursor again and again, after a short pause. */
export function supervise(inbound: Inbound, channel: RecordingChannel): Supervised {
  const ending = new AbortController();
  const errors: Error[] = [];
  let starts = 0;
  const done = (async () => {
    while (!ending.signal.aborted) {
      starts += 1;
      try {
        await inbound.run(channel.cursor, ending.signal);
      } catch (error) {
        errors.push(error as Error);
      }
      await channel.clock.sleep(100, ending.signal);
    }
  })();
  return {
    errors,
    get starts() {
      return starts;
    },
    async stop() {
      ending.abort();
      const over = new AbortController();
      void done.then(() => over.abort());
      let ms = 0;
      for (; !over.signal.aborted; ms += 10) await channel.clock.sleep(10, over.signal);
      await done;
      return ms;
    },
  };
}

export interface Try extends Attempt {
  readonly crossed: boolean;
}

/** An attempt that ends after `ms`. */
export function attempt(key: SendKey = sendKey("01hzx7key"), ms = 60_000, signal = AbortSignal.timeout(ms)): Try {
  let crossed = false;
  return {
    key,
    number: 1,
    signal,
    crossing: async () => {
      crossed = true;
    },
    read: noFiles,
    get crossed() {
      return crossed;
    },
  };
}

/** A reply to ann@example.net. */
export function replyTo(more: Partial<Reply> = {}): Reply {
  return {
    kind: "answer",
    key: sendKey("01hzx7key"),
    createdAt: new Date("2026-11-20T10:00:00Z"),
    to: [{ address: "ann@example.net" }],
    cc: [],
    subject: "Where is it?",
    text: "It is here.",
    signature: null,
    introduction: null,
    senderName: null,
    answers: null,
    history: [],
    token: threadToken("tok3ntok3ntok3n"),
    hops: 1,
    session: null,
    ...more,
  };
}

/** A plain mail to the channel; `more` replaces headers by name. */
export function mail(n: number | string, more: Readonly<Record<string, string>> = {}, body = `Question ${n}`): string {
  const headers = {
    From: "Ann <ann@example.net>",
    To: "support@example.com",
    Subject: `Mail ${n}`,
    "Message-ID": `<${n}@example.net>`,
    Date: new Date().toUTCString(),
    ...more,
  };
  const lines = Object.entries(headers).filter(([, value]) => value !== "");
  return `${lines.map(([name, value]) => `${name}: ${value}`).join("\n")}\n\n${body}\n`;
}

// Mailboxes on one Dovecot, a fresh one for each test, and the adapter's reading side on them.

export interface Opened {
  readonly channel: RecordingChannel;
  readonly supervised: Supervised;
  /** The mailbox's user. */
  readonly box: string;
}

export interface Mailboxes<Server extends MailStore = MailStore> {
  readonly dovecot: Server;
  /** The user of a mailbox that was never read. */
  fresh(): string;
  /** Reads a mailbox (default: a fresh one) on a channel (default: a fresh one). */
  open(more?: Partial<Settings>, imap?: Partial<Settings["imap"]>, channel?: RecordingChannel, box?: string): Opened;
  /** Like `open`; the channel is ready. */
  ready(...how: Parameters<Mailboxes["open"]>): Promise<Opened>;
  /** Stops everything that `open` started. */
  stopAll(): Promise<void>;
  dispose(): Promise<void>;
}

/** `count` mailboxes at most. */
export async function startMailboxes<Server extends MailStore>(
  count: number,
  start: (users: readonly string[]) => Promise<Server>,
): Promise<Mailboxes<Server>> {
  const users = Array.from({ length: count }, (_, n) => `support${n}`);
  const dovecot = await start(users);
  const running: Supervised[] = [];
  let next = 0;
  const fresh = () => {
    const user = users[next++];
    if (user === undefined) throw new Error("all mailboxes are used");
    return user;
  };
  const boxes: Mailboxes<Server> = {
    dovecot,
    fresh,
    open(more = {}, imap = {}, channel = recordingChannel({ since: nextSecond() }), box = fresh()) {
      const server = { user: dovecot.login(box), ...imap } as Settings["imap"];
      const { adapter } = adapterFor(settingsFor(dovecot.port, 1, { ...more, imap: server }), channel);
      if (!adapter.inbound) throw new Error("no inbound");
      const supervised = supervise(adapter.inbound, channel);
      running.push(supervised);
      return { channel, supervised, box };
    },
    async ready(...how) {
      const opened = boxes.open(...how);
      await ready(opened.channel);
      return opened;
    },
    async stopAll() {
      await Promise.all(running.splice(0).map((one) => one.stop()));
    },
    dispose: () => dovecot.dispose(),
  };
  return boxes;
}

/** The `since` of a channel that has been configured for a while. For mailboxes without older mail. */
export const before = () => recordingChannel({ since: new Date(Date.now() - 30_000) });

/** Arrival times are whole seconds: what a test delivered just before must not count as new. A mail delivered within
 *  this second counts as old in a rescan, so tests that change UIDVALIDITY open the channel with `before`. */
export const nextSecond = () => new Date(Math.floor(Date.now() / 1000) * 1000 + 1000);

export const ready = (channel: RecordingChannel) => channel.until("ready", (c) => c.statuses.at(-1)?.state === "ready");
export const arrived = (channel: RecordingChannel, n: number, ms?: number) =>
  channel.until(`${n} messages`, (c) => c.messages.length >= n, ms);
export const subjects = (channel: RecordingChannel) => channel.messages.map((message) => message.subject);
