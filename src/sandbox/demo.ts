// The people of the demo: a customer who writes mails and texts and calls, and a colleague of the agent's who is notified by
// mail. Shows what they write, and what reaches them.

import { systemClock } from "../ops/clock.ts";
import {
  type Delivered,
  type MailServer,
  type ReplyMail,
  readReply,
  startMailServer,
} from "./mail-server.ts";
import { type PhoneCall, startPhone } from "./phone.ts";
import { type SmsApi, startSmsApi } from "./sms-api.ts";

export interface CustomerOptions {
  /** Of the mailbox and of the phone account. */
  readonly password: string;
  /** What the people do. */
  readonly out: (text: string) => void;
  /** What reaches them: mails and texts, at any time. */
  readonly arrived: (text: string) => void;
}

export interface DemoCustomer {
  readonly mailServer: MailServer;
  readonly smsApi: SmsApi;
  /** The daemon listens here: where texts and calls go. */
  reach(url: string): void;
  /** Each resolves when the message is on its way; its answer, if there is one, arrives later. */
  mail(subject: string, text: string): Promise<void>;
  text(body: string): Promise<void>;
  call(): Promise<void>;
  /** Resolves when the answer was spoken. Prints it when there is no call. */
  say(text: string): Promise<void>;
  hangUp(): Promise<void>;
  /** The colleague answers the newest notification, if there is one. */
  respond(text: string): Promise<void>;
  /** How many mails have reached that address. */
  received(address: string): number;
  close(): Promise<void>;
}

const quoted = (mark: string, text: string): string =>
  `${mark} ${text.trimEnd().replaceAll("\n", `\n${mark} `)}`;

export async function startCustomer({ password, out, arrived }: CustomerOptions): Promise<DemoCustomer> {
  /** The newest mail that reached each address. */
  const newest = new Map<string, ReplyMail>();
  const counts = new Map<string, number>();
  let daemon = "";
  let talk: PhoneCall | null = null;
  async function deliver({ to, raw }: Delivered): Promise<void> {
    const mail = await readReply(raw);
    for (const address of to) {
      newest.set(address, mail);
      counts.set(address, (counts.get(address) ?? 0) + 1);
      const where = address === responder ? `(in the mailbox of the colleague, ${responder})\n` : "";
      arrived(`\n${quoted("<", `${where}Subject: ${mail.subject}\n${mail.text}`)}\n`);
    }
  }
  const mailServer = await startMailServer({
    address: support,
    password,
    others: (mail) => void deliver(mail),
  });
  const smsApi = await startSmsApi({ accountSid: account, authToken: password, number: numbers.support });
  const phone = startPhone({ accountSid: account, authToken: password });
  const closed = new AbortController();

  /** Shows every text of ours as the provider takes it. */
  async function watchTexts(): Promise<void> {
    for (let next = 0; !closed.signal.aborted; next += 1) {
      const sent = await smsApi.until((api) => closed.signal.aborted || api.sent[next], forEver);
      if (sent !== true) arrived(`\n${quoted("<", `(text) ${sent.body}`)}\n`);
    }
  }
  void watchTexts().catch(() => undefined); // ends with the provider

  /** Shows what the agent says as it comes, until the call is over. */
  async function listen(call: PhoneCall): Promise<void> {
    const over = () => call.state === "over" && "over";
    for (let next = 0; ; next += 1) {
      const piece = await call.until(() => piecesOf(call)[next] ?? over(), forEver);
      if (piece === "over" && piecesOf(call).length <= next) break;
      out(quoted("<", `(speaks) ${String(piece).trim()}`));
    }
    out(`The call is over: ${await call.over}.`);
    if (talk === call) talk = null;
  }

  return {
    mailServer,
    smsApi,
    reach(url) {
      daemon = url;
      smsApi.point({ inbound: `${url}/channels/support-sms/inbound#rc=3&rp=all` });
    },
    async mail(subject, text) {
      out(`\n> Subject: ${subject}\n${quoted(">", text)}\n`);
      const answers = newest.get(customer)?.messageId ?? null;
      mailServer.deliver(mailFrom({ from: customer, subject, text, answers }));
    },
    async text(body) {
      out(`\n${quoted(">", `(text) ${body}`)}\n`);
      await smsApi.receive({ from: numbers.customer, body });
    },
    async respond(text) {
      const notification = newest.get(responder);
      if (!notification) return;
      out(`\n> (the colleague answers the notification)\n${quoted(">", text)}\n`);
      const subject = `Re: ${notification.subject}`;
      mailServer.deliver(mailFrom({ from: responder, subject, text, answers: notification.messageId }));
    },
    received: (address) => counts.get(address) ?? 0,
    async call() {
      if (talk) return out("There is a call already: /say, or /hangup.");
      out(`\n> (calls ${numbers.support})\n`);
      talk = await phone.dial({
        url: `${daemon}/channels/support-voice/call`,
        from: numbers.customer,
        to: numbers.support,
      });
      void listen(talk);
      if (talk.state === "talking") await talk.until(({ spoken }) => finished(spoken[0]));
    },
    async say(text) {
      if (!talk) return out("Nobody is on the line: /call first.");
      const call = talk;
      const before = call.spoken.length;
      out(`\n${quoted(">", `(says) ${text}`)}\n`);
      call.say(text);
      await call.until(({ spoken, state }) => state === "over" || finished(spoken[before]), forEver);
      // What was said last is being shown.
      await systemClock.sleep(20);
    },
    async hangUp() {
      if (!talk) return out("Nobody is on the line.");
      out("\n> (hangs up)\n");
      await talk.hangUp();
    },
    async close() {
      closed.abort();
      await phone.close();
      await Promise.all([smsApi.close(), mailServer.close()]);
    },
  };
}

/** As long as a timer can wait. */
const forEver = 2 ** 31 - 1;

/** What is heard, as it comes: the greeting, then sentence by sentence. */
const piecesOf = ({ spoken }: PhoneCall): string[] =>
  spoken
    .flatMap(({ tokens, text }) => (tokens.length > 0 ? tokens.map((token) => token.text) : [text]))
    .filter((text) => text.trim() !== "");

const finished = <T extends { readonly done: boolean }>(spoken: T | undefined): T | null =>
  spoken?.done ? spoken : null;

// Content of the demo: agent definition, configuration and first messages.

export const support = "support@demo.example";
export const customer = "anna@customer.example";
/** The responder: a colleague whom the daemon notifies when the agent hands over. */
export const responder = "ben@lumen.example";

/** Fictitious phone numbers, and the account of the agent's number. */
export const numbers = { support: "+12025550100", customer: "+12025550123" };
const account = "AC00000000000000000000000000000000";

/** API key of the demo's agent; valid nowhere else. */
export const demoKey = "00000000-0000-4000-8000-000000000001";

export const firstMail = {
  subject: "Where is my parcel?",
  text: "Hello,\n\nI ordered a lamp last week. How long does delivery take?\n\nAnna",
};

export const complaint = "I have a complaint: the lamp arrived broken.";
export const responderAnswer = "I am sorry about that. A new lamp leaves today.\n\nBen";

export const firstText = "Hello, which bulbs fit your lamps?";
export const firstQuestion = "Can a lamp be returned, and when is the refund paid?";

export const agentsFile = `
organization: { name: Demo, key: demo-organization-key }
agents:
  - name: support
    public_name: Lumen Support
    key: ${demoKey}
    skills:
      email:
        email: ${support}
        senderName: Lumen Support
        emailSignature: "Lumen Lamps\\nwww.lumen.example"
        responseDelaySeconds: 0
      sms:
        phoneNumber: "${numbers.support}"
        smsSignature: "Lumen Lamps"
        responseDelaySeconds: 0
      voice: { status: active }
      escalation:
        escalations:
          - topic: complaint
            escalationPrompt: "complain|unacceptable|money back"
            autoChangeConversationMode: true
            response: I understand. A colleague will write to you today.
            recipients: []
    rules:
      - { when: "human|person", answer: "You can write to a colleague: say that you have a complaint." }
      - { when: "thanks|thank you", answer: "You are welcome!" }
    knowledge:
      - { title: Delivery, text: "Delivery takes two to four working days. Every parcel has a tracking number, which is in the mail we send on the day it leaves." }
      - { title: Returns, text: "Lamps can be returned within 30 days. The refund is paid within five working days after the parcel has arrived." }
      - { title: Bulbs, text: "All lamps take E27 bulbs of at most 40 watts. LED bulbs fit as well." }
    default_answer: "I do not know that. I have noted your question for a colleague."
`;

/** Returns the demo's configuration, small and as an operator would write it. */
export function configFile(where: {
  platformUrl: string;
  imapPort: number;
  smtpPort: number;
  smsUrl: string;
  folder: string;
}): string {
  return `
platform: { url: "${where.platformUrl}" }
agents:
  support: { key: "\${env:DEMO_KEY}" }
channels:
  support-mail:
    adapter: email
    agent: support
    imap: { host: 127.0.0.1, port: ${where.imapPort}, tls: none, user: ${support}, password: "\${env:DEMO_PASSWORD}" }
    smtp: { host: 127.0.0.1, port: ${where.smtpPort}, tls: none, user: ${support}, password: "\${env:DEMO_PASSWORD}" }
    first_start: { history: 1h }
  support-sms:
    adapter: sms
    agent: support
    provider: twilio
    account_sid: ${account}
    auth_tokens: ["\${env:DEMO_PASSWORD}"]
    number: "${numbers.support}"
    api_url: ${where.smsUrl}
    debounce: 500ms
  support-voice:
    adapter: voice
    agent: support
    dialect: twilio
    auth_tokens: ["\${env:DEMO_PASSWORD}"]
    greeting: Lumen Lamps, hello! How can I help you?
http: { listen: "127.0.0.1:0" }
store: "sqlite:${where.folder}/bridgehead.db"
`;
}

/** Escalation policy that the demo adds to its configuration. */
export const policyBlock = `
escalation:
  responders: { ben: { name: Ben, email: ${responder} } }
  fallback: { notify: [ ben ] }
  group: 0s
`;

let written = 0;

/** Builds a raw email from the customer or the responder, with CRLF line ends. */
function mailFrom(mail: { from: string; subject: string; text: string; answers: string | null }): string {
  written += 1;
  const headers = [
    `From: ${mail.from === responder ? "Ben" : "Anna Example"} <${mail.from}>`,
    `To: ${support}`,
    `Subject: ${mail.subject}`,
    `Message-ID: <demo-${written}@customer.example>`,
    `Date: ${new Date().toUTCString().replace("GMT", "+0000")}`,
    ...(mail.answers ? [`In-Reply-To: ${mail.answers}`, `References: ${mail.answers}`] : []),
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "Content-Transfer-Encoding: base64",
  ];
  const body = Buffer.from(mail.text, "utf8").toString("base64");
  return `${headers.join("\r\n")}\r\n\r\n${body}\r\n`;
}
