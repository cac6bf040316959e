// The daemon with escalation: customers who write, text and call, responders, and the platform's API.

import type { Clock } from "bridgehead/contract";
import { expect } from "vitest";
import type { App } from "../../../src/app.ts";
import { startMailServer } from "../../../src/sandbox/mail-server.ts";
import { touch } from "../../../src/store/driver.ts";
import { eventually, type MovableClock, sleepersOn } from "../clock.ts";
import type { MailStore } from "../email/dovecot.ts";
import { type Letter, type LetterOptions, letter, type Reply, readReply } from "../email/mails.ts";
import { startSmtpPeer } from "../email/smtp-server.ts";
import type { Finished } from "./mail-daemon.ts";
import { type PhoneDaemon, type PhoneDaemonOptions, startPhoneDaemon } from "./phone-daemon.ts";

type Block = { readonly [key: string]: unknown };

export interface EscalationDaemonOptions extends Omit<PhoneDaemonOptions, "channels" | "env" | "skills"> {
  /** Of the agent's ESCALATION skill; see `topic`. */
  readonly topics?: readonly Block[];
  /** Over the mail channel's block. */
  readonly mail?: Block;
  /** The mailbox: a user of it that no other test uses. Default: a small server of its own. */
  readonly dovecot?: MailStore;
}

export interface EscalationDaemon extends PhoneDaemon {
  /** Everything that was mailed to people outside, in its order. Only grows. */
  readonly mails: readonly Reply[];
  mailsTo(person: string): Reply[];
  /** The nth mail to that person (from 0), as soon as it is there. */
  mailTo(person: string, at?: number): Promise<Reply>;
  /** The nth text to that person, as soon as it is there. */
  textTo(person: string, at?: number): Promise<string>;
  /** Puts a mail into our mailbox. */
  write(options?: LetterOptions): Promise<Letter>;
  /** Waits until everything was routed, asked, sent, notified and polled: nothing happens until a clock is advanced.
   *  Call it before that, so that no lease expires during running work. */
  quiet(): Promise<void>;
  /** The escalations, oldest first. */
  escalations(): Promise<Escalated[]>;
  /** That many, in these states, oldest first. */
  escalated(...states: string[]): Promise<Escalated[]>;
  /** The platform's id of the customer's conversation. */
  platformId(person: string): Promise<string>;
  /** A person in the platform's own interface. */
  setMode(person: string, mode: "ai" | "manual"): Promise<void>;
  sayManually(person: string, text: string): Promise<void>;
  /** What the platform has of the conversation: role and text. */
  transcript(person: string): Promise<string[]>;
  /** The platform's webhook of an escalation arrives, with that id. At another node than the first, where one is given. */
  hook(person: string, id: string, topic: string, app?: App): Promise<void>;
  /** The platform's webhook of a new message arrives, with that id. */
  hookMessage(person: string, id: string): Promise<void>;
  /** Asks the agent in the person's conversation, without the daemon. */
  askElsewhere(person: string, text: string): Promise<void>;
  /** Looks at that conversation are due now. */
  look(person: string): Promise<void>;
}

export interface Escalated {
  readonly id: string;
  readonly number: number;
  readonly state: string;
  readonly cause: string;
  readonly topic: string | null;
  readonly acknowledged_by: string | null;
}

const office = "support@team.example";
export const customer = "anna@customer.example";
export const dora = { name: "Dora Dahl", email: "dora@people.example", sms: "+12025550191" };
export const emil = { name: "Emil Ek", email: "emil@people.example", sms: "+12025550192" };
export const chief = { name: "Cleo Chief", email: "chief@people.example" };
export const colleague = "A colleague will get back to you.";

/** An escalation of the agent's: a message with that word in it calls for it. */
export const topic = (word: string, more: Block = {}): Block => ({
  topic: word,
  escalationPrompt: "",
  autoChangeConversationMode: true,
  response: colleague,
  recipients: [],
  ...more,
});

/** Dora and Emil at once by text and mail, then the chief by mail. Conversations are polled only on request. A channel
 *  that fails while a clock is advanced does not count as down for the whole time. */
export const policy: Block = {
  responders: { dora, emil, chief },
  tiers: [{ notify: ["dora", "emil"], repeat: "10m", next: "15m" }],
  fallback: { notify: ["chief"] },
  group: "0s",
  poll: "12h",
  poll_open: "12h",
  down_after: "365d",
  platform_webhook: { key: "${env:HOOK_KEY}", register: false },
};
const hookKey = "a-key-of-the-platform";

const login = { host: "127.0.0.1", tls: "none", password: "${env:MAIL}" };

interface Mailbox {
  readonly user: string;
  readonly imap: number;
  readonly smtp: number;
  deliver(raw: string): Promise<void>;
}

/** `others`: called with what is mailed to people outside. */
async function openMailbox(
  finished: Finished,
  dovecot: MailStore | undefined,
  others: (to: readonly string[], raw: string) => void,
): Promise<Mailbox> {
  if (dovecot === undefined) {
    const given = { address: office, password: "secret" };
    const server = await startMailServer({ ...given, others: ({ to, raw }) => others(to, raw) });
    finished(() => server.close());
    const deliver = async (raw: string) => void server.deliver(raw);
    return { user: office, imap: server.imapPort, smtp: server.smtpPort, deliver };
  }
  const peer = await startSmtpPeer({ deliver: ({ to, raw }) => others(to, raw) });
  finished(() => peer.close());
  const user = "support";
  return {
    user: dovecot.login(user),
    imap: dovecot.port,
    smtp: peer.port,
    deliver: (raw) => dovecot.deliver(user, raw),
  };
}

const idleSql = `SELECT CAST(id AS TEXT) AS id FROM events WHERE state = 'stored' UNION ALL SELECT id FROM turns WHERE open = 1
  UNION ALL SELECT id FROM replies WHERE state = 'ready'
  UNION ALL SELECT id FROM drafts WHERE open = 1 AND (state <> 'queued' OR attempts > 0 OR due_at < now_ms() + 60000)
  UNION ALL SELECT id FROM lanes WHERE holder IS NOT NULL
  UNION ALL SELECT id FROM escalations WHERE due_at <= now_ms() UNION ALL SELECT id FROM notifications WHERE due_at <= now_ms()
  UNION ALL SELECT conversation FROM polls WHERE due_at < now_ms() + 5000`;

export async function startEscalationDaemon(
  finished: Finished,
  options: EscalationDaemonOptions = {},
): Promise<EscalationDaemon> {
  const { topics = [topic("refund")], mail, escalation = policy, ...more } = options;
  const mails: Reply[] = [];
  let unread = 0;
  const mailbox = await openMailbox(finished, options.dovecot, (to, raw) => {
    unread += 1;
    void readReply({ from: office, to, raw, messageId: "", at: 0, user: null }).then((one) => {
      mails.push(one);
      unread -= 1;
    });
  });
  const channel = {
    adapter: "email",
    agent: "support",
    address: office,
    imap: { ...login, user: mailbox.user, port: mailbox.imap, poll: "20s" },
    smtp: { ...login, user: mailbox.user, port: mailbox.smtp, login: false },
    sent_folder: "none",
    caps: { sender: [], conversation: [], channel: [] },
    ...mail,
  };
  const daemon = await startPhoneDaemon(finished, {
    emailSkill: { email: office, responseDelaySeconds: 0, emailSignature: "The Team", ...options.emailSkill },
    ...more,
    escalation,
    channels: { mail: channel },
    skills: { escalation: { escalations: topics } },
    env: { MAIL: "secret", HOOK_KEY: hookKey },
  });

  const mailsTo = (person: string) => mails.filter(({ to }) => to.includes(person));
  const escalations = () =>
    daemon.rows<Escalated>("SELECT id, number, state, cause, topic, acknowledged_by FROM escalations ORDER BY number");
  const conversationOf = async (person: string): Promise<{ id: string; platform_id: string }> => {
    const sql = "SELECT id, platform_id FROM conversations WHERE person = $1 AND platform_id IS NOT NULL";
    await eventually(async () => expect(await daemon.rows(sql, person)).toHaveLength(1));
    const [row] = await daemon.rows<{ id: string; platform_id: string }>(sql, person);
    if (!row) throw new Error("there is no conversation");
    return row;
  };
  const platformId = async (person: string) => (await conversationOf(person)).platform_id;
  async function call(method: string, path: string, body?: Block): Promise<Block> {
    const answer = await fetch(`${daemon.proxy.url}/external/conversations/${path}`, {
      method,
      headers: { "agent-secret-key": daemon.env["AGENT_KEY"] ?? "", "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Block;
  }
  async function post(person: string, kind: "escalation" | "message", id: string, more: Block, app = daemon.app()) {
    const triggerCondition = kind === "message" ? "each_message" : kind;
    const body = JSON.stringify({ triggerCondition, conversationId: await platformId(person), ...more });
    const headers = { "X-Bridgehead-Key": hookKey, "webhook-id": id, "content-type": "application/json" };
    const at = `https://bridge.example.com/platform/support/${kind}`;
    const { status } = await app.web.platform(new Request(at, { method: "POST", headers, body }));
    expect(status).toBe(200);
  }
  async function nth<T>(found: () => readonly T[], at: number): Promise<T> {
    await eventually(() => expect(found().length).toBeGreaterThan(at));
    return found()[at] as T;
  }

  return {
    ...daemon,
    mails,
    mailsTo,
    mailTo: (person, at = 0) => nth(() => mailsTo(person), at),
    textTo: (person, at = 0) => nth(() => daemon.textsTo(person), at),
    async write(written) {
      const one = letter(office, { from: customer, ...written });
      await mailbox.deliver(one.raw);
      return one;
    },
    async quiet() {
      await daemon.app().scheduler.sweep();
      await eventually(async () =>
        expect([await daemon.rows(idleSql), daemon.app().scheduler.running(), unread]).toEqual([[], 0, 0]),
      );
    },
    escalations,
    async escalated(...states) {
      await eventually(async () => expect((await escalations()).map(({ state }) => state)).toEqual(states));
      return escalations();
    },
    platformId,
    setMode: async (person, mode) => void (await call("PUT", `${await platformId(person)}/mode`, { mode })),
    sayManually: async (person, message) =>
      void (await call("POST", `${await platformId(person)}/send-manual-message`, { message })),
    async transcript(person) {
      const { messages } = (await call("GET", `${await platformId(person)}/messages`)) as {
        messages: { senderRole: string; message: string }[];
      };
      return messages.map(({ senderRole, message }) => `${senderRole}: ${message}`);
    },
    hook: (person, id, topic, app) => post(person, "escalation", id, { escalation: { topic } }, app),
    hookMessage: (person, id) => post(person, "message", id, {}),
    askElsewhere: async (person, message) =>
      void (await call("POST", `${await platformId(person)}/messages`, { message })),
    async look(person) {
      const { id } = await conversationOf(person);
      await daemon.app().scheduler.commit(async (q) => {
        await q.run("UPDATE polls SET due_at = now_ms() WHERE conversation = $1", id);
        touch(q, "polls");
      });
    },
  };
}

/** A clock that begins at that instant, and may be set forward to another one. */
export function clockFrom(start: string): MovableClock & { to(instant: string): void } {
  const begun = performance.now();
  let offset = Date.parse(start);
  const now = () => Math.floor(offset + performance.now() - begun);
  const sleepers = sleepersOn(now);
  const forward: MovableClock["forward"] = (ms) => {
    offset += ms;
    sleepers.rouse();
  };
  const clock: Clock = { now, monotonic: () => performance.now(), sleep: sleepers.sleep };
  return {
    ...clock,
    forward,
    to: (instant) => forward(Math.max(0, Date.parse(instant) - now())),
  };
}
