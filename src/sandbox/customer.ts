// The people of the demo: a customer who writes mails and texts and calls, and a colleague of the agent's who is notified by
// mail. Shows what they write, and what reaches them.

import { systemClock } from "../ops/clock.ts";
import { type Delivered, type MailServer, startMailServer } from "./mail-server.ts";
import type { PhoneCall } from "./phone.ts";
import { startPhone } from "./phone.ts";
import { type ReplyMail, readReply } from "./reply-mail.ts";
import { type SmsApi, startSmsApi } from "./sms-api.ts";
import { account, customer, mailFrom, numbers, responder, support } from "./story.ts";

export interface CustomerOptions {
  /** Of the mailbox and of the phone account. */
  readonly password: string;
  /** What the people do. */
  readonly out: (text: string) => void;
  /** What reaches them: mails and texts, at any time. */
  readonly arrived: (text: string) => void;
}

export interface Customer {
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

export async function startCustomer({ password, out, arrived }: CustomerOptions): Promise<Customer> {
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
