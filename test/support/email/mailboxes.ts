// Mailboxes on one Dovecot, a fresh one for each test, and the adapter's reading side on them.

import { type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import { adapterFor, type Settings, type Supervised, settingsFor, supervise } from "./adapter.ts";
import { type Dovecot, type DovecotOptions, startDovecot } from "./dovecot.ts";

export interface Opened {
  readonly channel: RecordingChannel;
  readonly supervised: Supervised;
  /** The mailbox's user. */
  readonly box: string;
}

export interface Mailboxes {
  readonly dovecot: Dovecot;
  /** The user of a mailbox that nobody has read yet. */
  fresh(): string;
  /** Reads a mailbox (default: a fresh one) on a channel (default: a fresh one). */
  open(
    more?: Partial<Settings>,
    imap?: Partial<Settings["imap"]>,
    channel?: RecordingChannel,
    box?: string,
  ): Opened;
  /** Stops everything that `open` started. */
  stopAll(): Promise<void>;
  dispose(): Promise<void>;
}

/** `count` mailboxes at most. */
export async function startMailboxes(
  count: number,
  options: Partial<DovecotOptions> = {},
): Promise<Mailboxes> {
  const users = Array.from({ length: count }, (_, n) => `support${n}`);
  const dovecot = await startDovecot({ ...options, users });
  const running: Supervised[] = [];
  let next = 0;
  const fresh = () => {
    const user = users[next++];
    if (user === undefined) throw new Error("all mailboxes are used");
    return user;
  };
  return {
    dovecot,
    fresh,
    open(more = {}, imap = {}, channel = recordingChannel({ since: nextSecond() }), box = fresh()) {
      const server = { user: box, ...imap } as Settings["imap"];
      const { adapter } = adapterFor(settingsFor(dovecot.port, 1, { ...more, imap: server }), channel);
      if (!adapter.inbound) throw new Error("no inbound");
      const supervised = supervise(adapter.inbound, channel);
      running.push(supervised);
      return { channel, supervised, box };
    },
    async stopAll() {
      await Promise.all(running.splice(0).map((one) => one.stop()));
    },
    dispose: () => dovecot.dispose(),
  };
}

/** The `since` of a channel that has been configured for a while. For mailboxes without older mail. */
export const before = () => recordingChannel({ since: new Date(Date.now() - 30_000) });

/** Arrival times are whole seconds: what a test delivered just before must not count as new. A mail delivered
 *  within this second counts as old in a rescan, so tests that change UIDVALIDITY open the channel with
 *  `before`. */
const nextSecond = () => new Date(Math.floor(Date.now() / 1000) * 1000 + 1000);

export const ready = (channel: RecordingChannel) =>
  channel.until("ready", (c) => c.statuses.at(-1)?.state === "ready");
export const arrived = (channel: RecordingChannel, n: number, ms?: number) =>
  channel.until(`${n} messages`, (c) => c.messages.length >= n, ms);
export const subjects = (channel: RecordingChannel) => channel.messages.map((message) => message.subject);
