// The servers around a daemon that must reach a human: a platform whose agent hands over, a phone account, a mailbox with its
// relay, a pager, and the people behind them. They run in the test's own process and survive every kill of the daemon.

import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import PostalMime from "postal-mime";
import { startMailServer } from "../../../../src/sandbox/mail-server.ts";
import { SmsApi } from "../../../../src/sandbox/sms-api.ts";
import { type ReceivedMail, type SmtpPeer, startSmtpPeer } from "../../email/smtp-server.ts";
import { bodyServer, listen } from "../../machine/network.ts";
import { startPlatformOf } from "../../platform/platform.ts";
import { adminOf, type Daemon, type DaemonOptions, startDaemon } from "../daemon.ts";
import { until } from "../mail/scenario.ts";
import { startModel } from "../mail/servers.ts";

export const office = "support@bridge.test";
/** What the agent says when it hands over. */
export const handing = "A colleague will get back to you.";
export const dora = { name: "Dora Dahl", sms: "+12025550191" };
export const emil = { name: "Emil Ek", email: "emil@people.test" };
/** Behind a pager. */
export const ida = { name: "Ida Ito" };
/** The responder of the last tier. */
export const nora = { name: "Nora Nord", sms: "+12025550192", email: "nora@people.test" };
export const chief = { name: "Cleo Chief", sms: "+12025550193", email: "cleo@people.test" };

const agentKey = "prompt-key-1";
const ourNumber = "+12025550100";
const publicUrl = "https://bridge.example.com";
const token = "auth-token";
const account = "AC0123456789abcdef0123456789abcdef";
const password = "secret";
/** An address without a listener. */
const nowhere = "http://127.0.0.1:1";
/** Of the platform's webhooks to us. */
export const webhookKey = "platform-webhook-key";

export interface EscalationTestServers {
  readonly platformUrl: string;
  /** A store whose daemon has begun to look for missed texts: what comes from now on is answered. */
  readonly begun: string;
  close(): Promise<void>;
}

export async function startEscalationServers(): Promise<EscalationTestServers> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-escalations-"));
  const model = await startModel();
  const agents = `
organization: { name: Acme }
agents:
  prompt:
    key: ${agentKey}
    model: { url: "${model.url}/v1", name: echo }
    skills:
      sms: { phoneNumber: "${ourNumber}", responseDelaySeconds: 0 }
      email: { email: ${office}, emailSignature: The Bridge, responseDelaySeconds: 0 }
      escalation:
        escalations:
          - { topic: refund, escalationPrompt: "", autoChangeConversationMode: true, response: "${handing}", recipients: [] }
`;
  const platform = await startPlatformOf(agents, { file: join(folder, "platform.db"), durability: "normal" });
  const servers = {
    platformUrl: platform.url,
    begun: join(folder, "begun.db"),
    async close() {
      await platform.close();
      await model.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  const setup = await openEscalationSetup(servers, { fresh: true });
  await useOnce(setup);
  // It was closed in order: the file is the whole store.
  copyFileSync(setup.store, servers.begun);
  await setup.close();
  return servers;
}

/** Starts a daemon on the store, and stops it when it has begun to look for missed messages. */
async function useOnce(setup: Pick<EscalationSetup, "start">): Promise<void> {
  const daemon = await setup.start();
  await until("the first looks", () => reads(daemon));
  await daemon.stop();
}

/** Every channel has finished its backfill: later messages arrive by webhook. */
export const reads = ({ lines }: Daemon): boolean =>
  ["sms", "mail"].every((id) =>
    lines.some(
      ({ message, channel, state }) => channel === id && state === "ready" && message.startsWith("channel connect"),
    ),
  );

export interface EscalationSetupOptions {
  /** Default: a store that a daemon has used before. */
  readonly fresh?: boolean;
  /** URL of an empty PostgreSQL schema for the store; by default it is a SQLite file. */
  readonly postgres?: string;
  /** The interval of repetitions and of tiers. Default: longer than a test. */
  readonly repeat?: string;
  readonly next?: string;
  /** How long the relay may say nothing. Default: 2m. */
  readonly relayTimeout?: string;
  /** How long a mail that may have gone out is looked for, before it is sent again. Default: 300ms. */
  readonly unknownWindow?: string;
  /** What becomes of such a mail then. Default: resend. */
  readonly onUnknown?: "hold" | "resend";
}

export interface Mail {
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** One phone account and mailbox with their people, and the folder of the daemon that serves them. */
export interface EscalationSetup {
  readonly servers: EscalationTestServers;
  readonly api: SmsApi;
  readonly peer: SmtpPeer;
  readonly pager: Pager;
  /** SQLite file, or URL of the PostgreSQL schema. */
  readonly store: string;
  /** Where the daemon listens; nowhere while it is dead. */
  via(): string;
  /** Where the running daemon serves reasons and metrics. */
  admin(): string;
  /** The next process, as soon as it is ready or has ended. */
  start(more?: Pick<DaemonOptions, "killAt" | "plant">): Promise<Daemon>;
  /** Bodies of the texts to that person that the provider took, in its order. */
  texts(person: string): string[];
  /** What was mailed to that person, each once however often the relay got it, oldest first. */
  mails(person: string): Promise<Mail[]>;
  /** Puts a mail into our mailbox. */
  write(mail: { readonly from: string; readonly text: string; readonly answers?: Mail }): void;
  /** Reads or writes at the platform as the agent: `GET conversations/...`. */
  platform(method: string, path: string, body?: object): Promise<unknown>;
  close(): Promise<void>;
}

export async function openEscalationSetup(
  servers: Pick<EscalationTestServers, "platformUrl" | "begun">,
  options: EscalationSetupOptions = {},
): Promise<EscalationSetup> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-place-"));
  let via = nowhere;
  let admin = nowhere;
  const api = await SmsApi.start({
    accountSid: account,
    authToken: token,
    number: ourNumber,
    progress: [],
    webhooks: {
      inbound: `${publicUrl}/channels/sms/inbound#rc=2&rp=all`,
      get via() {
        return via;
      },
    },
  });
  const mailbox = await startMailServer({ address: office, password, others: () => undefined });
  const peer = await startSmtpPeer();
  const pager = await startPager();
  const config = join(folder, "bridgehead.yaml");
  const given = { platform: servers.platformUrl, api: api.url, imap: mailbox.imapPort, smtp: peer.port };
  writeFileSync(config, configFile({ ...given, pager: pager.url }, options));
  const store = options.postgres ?? join(folder, "bridgehead.db");
  if (!options.fresh && options.postgres === undefined) copyFileSync(servers.begun, store);
  let written = 0;
  const read = new Map<string, Promise<Mail>>();
  const setup: EscalationSetup = {
    servers: { ...servers, close: async () => undefined },
    api,
    peer,
    pager,
    store,
    via: () => via,
    admin: () => admin,
    async start(more = {}) {
      via = nowhere;
      const env = {
        AGENT_KEY: agentKey,
        TWILIO_TOKEN: token,
        MAIL_PASSWORD: password,
        WEBHOOK_KEY: webhookKey,
      };
      const daemon = startDaemon({ config, env, saysPort: true, ...more });
      void daemon.ended.then(() => (via = nowhere));
      if (await daemon.ready) [via, admin] = [portOf(daemon), adminOf(daemon)];
      return daemon;
    },
    texts: (person) => api.sent.filter(({ to }) => to === person).map(({ body }) => body),
    async mails(person) {
      const own = peer.accepted.filter(({ to }) => to.includes(person));
      for (const mail of own) if (!read.has(mail.messageId)) read.set(mail.messageId, readMail(mail));
      const mails = await Promise.all(read.values());
      return mails.filter(({ to }) => to === person);
    },
    write({ from, text, answers }) {
      written += 1;
      mailbox.deliver(letterOf({ from, text, answers, id: `<letter-${peer.port}-${written}@people.test>` }));
    },
    async platform(method, path, body) {
      const response = await fetch(`${servers.platformUrl}/external/${path}`, {
        method,
        headers: { "agent-secret-key": agentKey, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
      return response.json();
    },
    async close() {
      await Promise.all([api.close(), mailbox.close(), peer.close(), pager.close()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
  if (options.postgres !== undefined) await useOnce(setup);
  return setup;
}

async function readMail({ messageId, raw, to }: ReceivedMail): Promise<Mail> {
  const { subject = "", text = "" } = await PostalMime.parse(Buffer.from(raw, "latin1"));
  return { id: messageId, to: to[0] ?? "", subject, text };
}

function portOf({ lines }: Daemon): string {
  const line = lines.find(({ message }) => message === "listening");
  return `http://127.0.0.1:${Number(line?.["port"])}`;
}

function letterOf(mail: {
  readonly id: string;
  readonly from: string;
  readonly text: string;
  readonly answers: Mail | undefined;
}): string {
  const { id, from, text, answers } = mail;
  return [
    `From: ${from}`,
    `To: ${office}`,
    `Subject: ${answers ? `Re: ${answers.subject}` : "A question"}`,
    `Message-ID: ${id}`,
    `Date: ${new Date().toUTCString().replace("GMT", "+0000")}`,
    ...(answers ? [`In-Reply-To: ${answers.id}`, `References: ${answers.id}`] : []),
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "",
    text,
    "",
  ].join("\r\n");
}

interface Addresses {
  readonly platform: string;
  readonly api: string;
  readonly imap: number;
  readonly smtp: number;
  readonly pager: string;
}

function configFile(at: Addresses, options: EscalationSetupOptions): string {
  const { repeat = "6h", next = "12h", relayTimeout = "2m", unknownWindow = "300ms", onUnknown = "resend" } = options;
  const login = `host: 127.0.0.1, tls: none, user: ${office}, password: "\${env:MAIL_PASSWORD}"`;
  const phone = `account_sid: ${account}, auth_tokens: ["\${env:TWILIO_TOKEN}"], api_url: "${at.api}", number: "${ourNumber}"`;
  const caps = "caps: { sender: [], conversation: [], channel: [] }";
  return `
platform: { url: "${at.platform}", timeout: 20s, absent_after: 500ms, rate: { requests: 100000, per: 60s } }
agents: { support: { key: "\${env:AGENT_KEY}" } }
channels:
  sms: { adapter: sms, agent: support, provider: twilio, ${phone}, debounce: 0s, ${caps}, backfill: { every: 1h, overlap: 1h, after: 1ms } }
  mail:
    adapter: email
    agent: support
    address: ${office}
    imap: { ${login}, port: ${at.imap}, poll: 1s }
    smtp: { ${login}, port: ${at.smtp}, login: false, timeout: ${relayTimeout} }
    first_start: { history: 1h }
    sent_folder: none
    on_unknown: ${onUnknown}
    unknown_window: ${unknownWindow}
    ${caps}
escalation:
  responders:
    dora: { name: ${dora.name}, sms: "${dora.sms}" }
    emil: { name: ${emil.name}, email: ${emil.email} }
    ida: { name: ${ida.name}, webhook: { url: "${at.pager}" } }
    nora: { name: ${nora.name}, sms: "${nora.sms}", email: ${nora.email} }
    chief: { name: ${chief.name}, sms: "${chief.sms}", email: ${chief.email} }
  tiers:
    - { notify: [dora, emil, ida], repeat: ${repeat}, next: ${next} }
    - { notify: [nora], repeat: ${repeat}, next: ${next} }
  fallback: { notify: [chief], repeat: ${repeat} }
  group: 0s
  poll: 12h
  poll_open: 12h
  allow_private: ["127.0.0.1"]
  platform_webhook: { key: "\${env:WEBHOOK_KEY}", register: false }
http: { listen: "127.0.0.1:0", public_url: "${publicUrl}" }
store: ${JSON.stringify(options.postgres ?? "sqlite:bridgehead.db")}
log: { level: debug, format: json }
`;
}

// A webhook receiver (a pager, a chat). It only appends to its log, and can be made to fail.

export interface Page {
  /** The same on every try of one notice. */
  readonly id: string;
  readonly type: string;
  /** The escalation's number. */
  readonly escalation: number;
  readonly text: string | null;
}

export interface Pager {
  readonly url: string;
  /** The accepted notifications, each once, however often it was sent. */
  pages(): Page[];
  /** How many lines there were. */
  lines(): number;
  /** From now on: answers 503, says nothing, or cuts every line. */
  become(state: "well" | "busy" | "silent" | "cut"): void;
  close(): Promise<void>;
}

async function startPager(): Promise<Pager> {
  const taken = new Map<string, Page>();
  const sockets = new Set<Socket>();
  let lines = 0;
  let state: Parameters<Pager["become"]>[0] = "well";
  const server = bodyServer((body, response, request) => {
    if (state === "silent") return;
    if (state === "busy") return void response.writeHead(503).end();
    const id = String(request.headers["webhook-id"]);
    const { type, data } = JSON.parse(body) as {
      type: string;
      data: { escalation: number; text: string | null };
    };
    taken.set(id, { id, type, escalation: data.escalation, text: data.text });
    response.writeHead(204).end();
  });
  server.on("connection", (socket: Socket) => {
    lines += 1;
    if (state === "cut") return void socket.destroy();
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  const url = await listen(server);
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `${url}/page`,
    pages: () => [...taken.values()],
    lines: () => lines,
    become(next) {
      state = next;
      // Pending requests get no response, and idle connections are not used again.
      cut();
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
}
