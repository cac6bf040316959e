// The demo's customer: writes mails and texts, calls, and shows what comes back.

import { systemClock } from "../ops/clock.ts";
import { type MailServer, startMailServer } from "./mail-server.ts";
import type { PhoneCall } from "./phone.ts";
import { startPhone } from "./phone.ts";
import { type ReplyMail, readReply } from "./reply-mail.ts";
import { type SmsApi, startSmsApi } from "./sms-api.ts";
import { account, mailFrom, numbers, support } from "./story.ts";

export interface CustomerOptions {
  /** Of the mailbox and of the phone account. */
  readonly password: string;
  readonly out: (text: string) => void;
}

export interface Customer {
  readonly mailServer: MailServer;
  readonly smsApi: SmsApi;
  /** The daemon listens here: where texts and calls go. */
  reach(url: string): void;
  /** Each resolves when the answer has been shown. */
  mail(subject: string, text: string): Promise<void>;
  text(body: string): Promise<void>;
  call(): Promise<void>;
  /** Says so when nobody is on the line. */
  say(text: string): Promise<void>;
  hangUp(): Promise<void>;
  close(): Promise<void>;
}

const quoted = (mark: string, text: string): string =>
  `${mark} ${text.trimEnd().replaceAll("\n", `\n${mark} `)}`;

export async function startCustomer({ password, out }: CustomerOptions): Promise<Customer> {
  let reply: (mail: ReplyMail) => void = () => undefined;
  let thread: ReplyMail | null = null;
  let daemon = "";
  let talk: PhoneCall | null = null;
  const mailServer = await startMailServer({
    address: support,
    password,
    others: ({ raw }) => void readReply(raw).then((mail) => reply(mail)),
  });
  const smsApi = await startSmsApi({ accountSid: account, authToken: password, number: numbers.support });
  const phone = startPhone({ accountSid: account, authToken: password });

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
      const answered = new Promise<ReplyMail>((resolve) => (reply = resolve));
      out(`\n> Subject: ${subject}\n${quoted(">", text)}\n`);
      mailServer.deliver(mailFrom({ subject, text, answers: thread?.messageId ?? null }));
      thread = await answered;
      out(`\n< Subject: ${thread.subject}\n${quoted("<", thread.text)}\n`);
    },
    async text(body) {
      const before = smsApi.sent.length;
      out(`\n${quoted(">", `(text) ${body}`)}\n`);
      await smsApi.receive({ from: numbers.customer, body });
      const sent = await smsApi.until((api) => api.sent[before], forEver);
      out(`\n${quoted("<", `(text) ${sent.body}`)}\n`);
    },
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
      await phone.close();
      await Promise.all([smsApi.close(), mailServer.close()]);
    },
  };
}

/** As long as a timer can wait; who is not answered any more is interrupted. */
const forEver = 2 ** 31 - 1;

/** What is heard, as it comes: the greeting, then sentence by sentence. */
const piecesOf = ({ spoken }: PhoneCall): string[] =>
  spoken
    .flatMap(({ tokens, text }) => (tokens.length > 0 ? tokens.map((token) => token.text) : [text]))
    .filter((text) => text.trim() !== "");

const finished = <T extends { readonly done: boolean }>(spoken: T | undefined): T | null =>
  spoken?.done ? spoken : null;
