// A daemon with a mailbox and its servers, for one test: a mailbox in a real Dovecot, an SMTP server the replies arrive at, the embedded platform
// over HTTP with a front that may fail, and the daemon's composition root between them.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock, LogFields } from "bridgehead/contract";
import { expect } from "vitest";
import { type App, startApp } from "../../../src/app.ts";
import { loadAdapter } from "../../../src/channels/loader.ts";
import { type ChannelReport, reportChannels } from "../../../src/channels/readiness.ts";
import { type Config, loadConfig } from "../../../src/config/index.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type Platform } from "../../../src/platform/index.ts";
import { eventually } from "../clock.ts";
import type { MailStore } from "../email/dovecot.ts";
import { type Letter, type LetterOptions, letter, type Reply, readReply } from "../email/mails.ts";
import { type ReceivedMail, type SmtpPeer, type SmtpPeerOptions, startSmtpPeer } from "../email/smtp-server.ts";
import { startPlatformOf } from "../platform/platform.ts";
import {
  type Echo,
  lastLine,
  type PlatformProxy,
  platformReader,
  type Question,
  startEcho,
  startPlatformProxy,
} from "./platform.ts";

type Block = { readonly [key: string]: unknown };

export interface MailDaemonOptions {
  readonly dovecot: MailStore;
  /** A user of `dovecot` that no other test uses. */
  readonly user: string;
  /** Keys of the channel block, over the defaults; `imap` and `smtp` are merged. */
  readonly channel?: Block & { readonly imap?: Block; readonly smtp?: Block };
  readonly skill?: Block;
  readonly platform?: Block;
  readonly refresh?: string;
  readonly smtp?: SmtpPeerOptions;
  readonly clock?: Clock;
  /** Default: an SQLite file of its own. */
  readonly store?: string;
  /** The limit of the embedded platform, which is also configured in the daemon. Default: more than any test needs. */
  readonly rate?: { readonly requests: number; readonly perSeconds: number };
  /** The test starts it. */
  readonly stopped?: boolean;
}

/** Called with what must be undone when the test has ended: vitest's `onTestFinished`. */
export type Finished = (undo: () => Promise<void>) => void;

export interface Logged {
  readonly level: "info" | "warn" | "error";
  readonly message: string;
  readonly fields: LogFields;
}

export interface MailDaemon {
  readonly address: string;
  readonly channel: string;
  readonly smtp: SmtpPeer;
  readonly proxy: PlatformProxy;
  readonly model: Echo;
  readonly log: readonly Logged[];
  /** What the configuration refers to. */
  readonly env: Readonly<Record<string, string>>;
  /** Writes the configuration and reads it. Its `file` serves another process as well. */
  config(): Promise<Config>;
  /** The running daemon; throws when it does not run. */
  app(): App;
  /** With its configuration, or that one. */
  start(config?: Config): Promise<App>;
  /** One more daemon on the same configuration, or that one; stop it yourself. */
  another(config?: Config): Promise<App>;
  stop(drainMs?: number): Promise<void>;
  /** The embedded platform goes away and comes back with the same data, or with none. */
  restartPlatform(data: "same" | "none"): Promise<void>;
  /** A person's mail arrives in the mailbox. */
  write(options?: LetterOptions): Promise<Letter>;
  deliver(raw: string): Promise<void>;
  /** The one reply to that mail. */
  replyTo(mail: { readonly messageId: string }, withinMs?: number): Promise<Reply>;
  /** Every mail the SMTP server has accepted. */
  replies(): Promise<Reply[]>;
  report(): ChannelReport;
  reports(expected: Partial<ChannelReport>, withinMs?: number): Promise<void>;
  rows<T = Row>(sql: string, ...values: (string | number)[]): Promise<T[]>;
  /** Questions as the platform's own file has them, in their order. */
  questions(): Question[];
  /** How many conversations the platform's own file has. */
  conversations(): number;
  /** Nothing is on its way any more, and exactly these mails were answered and asked, once each. */
  settled(letters: readonly Letter[], withinMs?: number): Promise<void>;
}

// Tests read any column of a row.
// oxlint-disable-next-line typescript/no-explicit-any
export type Row = { readonly [column: string]: any };

const agentKey = "11111111-2222-4333-8444-555555555555";
const plenty = { requests: 100_000, perSeconds: 60 };
let daemons = 0;

export async function startMailDaemon(finished: Finished, options: MailDaemonOptions): Promise<MailDaemon> {
  const { dovecot, user, rate = plenty, clock = systemClock } = options;
  daemons += 1;
  const channel = `mail-${daemons}`;
  const address = `${user}@${user}.example`;
  const folder = await mkdtemp(join(tmpdir(), "bridgehead-daemon-"));
  const file = join(folder, "bridgehead.yaml");
  const log: Logged[] = [];
  const note = (level: Logged["level"]) => (fields: LogFields, message: string) =>
    void log.push({ level, message, fields });
  const logger = { debug: () => undefined, info: note("info"), warn: note("warn"), error: note("error") };

  const model = await startEcho();
  const smtp = await startSmtpPeer(options.smtp);
  const env = { AGENT_KEY: agentKey, MAIL_PASSWORD: dovecot.password, SECRET: "secret", GRANT: "granted" };
  let generation = 0;
  let platform: Platform = await openPlatform();
  const proxy = await startPlatformProxy(() => platform.url);
  let app: App | null = null;
  finished(async () => {
    await app?.stop(2000);
    model.release();
    await Promise.all([proxy.close(), smtp.close(), model.close()]);
    await platform.close();
    await rm(folder, { recursive: true, force: true });
  });

  function openPlatform(): Promise<Platform> {
    return startPlatformOf(agentsFile(address, model.url, options.skill ?? {}), {
      file: platformFile(),
      log: logger,
      rate,
      durability: "normal",
    });
  }
  function platformFile(): string {
    return join(folder, `platform-${generation}.db`);
  }

  async function config(): Promise<Config> {
    const { imap, smtp: out, ...keys } = options.channel ?? {};
    const server = { host: "127.0.0.1", tls: "none" };
    const text = {
      platform: {
        url: proxy.url,
        timeout: "20s",
        absent_after: "1s",
        rate: { requests: rate.requests, per: `${rate.perSeconds}s` },
        ...options.platform,
      },
      agents: { support: { key: "${env:AGENT_KEY}", refresh: options.refresh ?? "1s" } },
      channels: {
        [channel]: {
          adapter: "email",
          agent: "support",
          address,
          caps: { sender: [], conversation: [], channel: [] },
          imap: {
            ...server,
            port: dovecot.port,
            user: dovecot.login(user),
            password: "${env:MAIL_PASSWORD}",
            poll: "10s",
            ...imap,
          },
          smtp: { ...server, port: smtp.port, login: false, ...out },
          sent_folder: "none",
          ...keys,
        },
      },
      http: { listen: "127.0.0.1:0" },
      store: options.store ?? "sqlite:bridgehead.db",
    };
    // JSON is YAML.
    await writeFile(
      file,
      JSON.stringify(text, (_key, value: unknown) => (value === null ? undefined : value)),
    );
    const loaded = await loadConfig(file, { env, adapters: loadAdapter });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems, null, 1));
    return loaded.config;
  }

  const compose = async (given?: Config): Promise<App> =>
    startApp({
      config: given ?? (await config()),
      platformUrl: proxy.url,
      clock,
      log: logger,
      publicUrl: () => "http://127.0.0.1",
    });
  const running = (): App => {
    if (app === null) throw new Error("the daemon does not run");
    return app;
  };
  function report(): ChannelReport {
    const found = reportChannels(running().host, running().agents).find((one) => one.id === channel);
    if (!found) throw new Error("the channel does not run");
    return found;
  }
  const parsed = new Map<ReceivedMail, Promise<Reply>>();
  const replies = () =>
    Promise.all(
      smtp.accepted.map((mail) => {
        const reply = parsed.get(mail) ?? readReply(mail);
        parsed.set(mail, reply);
        return reply;
      }),
    );
  const rows = <T = Row>(sql: string, ...values: (string | number)[]) =>
    running().db.read((q) => q.all<T>(sql, ...values));

  const read = platformReader(platformFile);

  const daemon: MailDaemon = {
    address,
    channel,
    smtp,
    proxy,
    model,
    log,
    env,
    config,
    app: running,
    async start(given) {
      app = await compose(given);
      return app;
    },
    another: compose,
    async stop(drainMs = 20_000) {
      const ending = running();
      app = null;
      await ending.stop(drainMs);
    },
    async restartPlatform(data) {
      await platform.close();
      if (data === "none") generation += 1;
      platform = await openPlatform();
    },
    async write(more) {
      const mail = letter(address, more);
      await dovecot.deliver(user, mail.raw);
      return mail;
    },
    deliver: (raw) => dovecot.deliver(user, raw),
    async replyTo(mail, withinMs = 150_000) {
      const found = async () => (await replies()).filter((reply) => reply.inReplyTo === mail.messageId);
      await eventually(async () => expect(await found()).not.toEqual([]), withinMs);
      const [reply, ...more] = await found();
      expect(more, "replies to one mail beyond the first").toEqual([]);
      if (!reply) throw new Error("there is no reply");
      return reply;
    },
    replies,
    report,
    async reports(expected, withinMs = 150_000) {
      await eventually(() => expect(report()).toMatchObject(expected), withinMs);
    },
    rows,
    questions: () => read.questions(),
    conversations: () => read.conversations(),
    async settled(letters, withinMs = 150_000) {
      const answered = async () => (await replies()).map((reply) => reply.inReplyTo).toSorted(byText);
      const wanted = letters.map((one) => one.messageId).toSorted(byText);
      await eventually(async () => expect(await answered()).toEqual(wanted), withinMs);
      const open =
        "SELECT id, state, reason FROM turns WHERE open = 1 UNION ALL SELECT id, state, reason FROM drafts WHERE open = 1";
      await eventually(async () => expect(await rows(open)).toEqual([]), withinMs);
      const texts = read.questions().map((one) => lastLine(one.text));
      expect(texts.toSorted(byText)).toEqual(letters.map((one) => one.text).toSorted(byText));
    },
  };
  if (!options.stopped) {
    await daemon.start();
    await daemon.reports({ state: "ready", not_asking: null });
  }
  return daemon;
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function agentsFile(email: string, model: string, skill: Block): string {
  return JSON.stringify({
    organization: { name: "World", key: "world-organization-key" },
    agents: {
      support: {
        key: agentKey,
        skills: { email: { email, responseDelaySeconds: 0, ...skill } },
        model: { url: model, name: "echo" },
      },
    },
  });
}
