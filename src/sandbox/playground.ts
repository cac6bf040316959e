// The people of the demo and their mailboxes and phones: customers who write mails and texts and call, and a colleague who is
// notified by mail. Everything goes through the sandbox's servers: a mail through the IMAP mailbox, a text through a signed
// webhook, a call over the voice websocket. Records what they write and what reaches them.

import { systemClock } from "../ops/clock.ts";
import { account, customer, numbers, responder, support } from "./demo.ts";
import { type Delivered, faultDomain, type MailServer, mailFaults, readReply, startMailServer } from "./mail-server.ts";
import { Phone, type PhoneCall } from "./phone.ts";
import { SmsApi } from "./sms-api.ts";
import { numberFaults } from "./sms-faults.ts";

/** A message that a party has written or received. */
export interface PlaygroundMessage {
  readonly id: number;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly kind: "mail" | "text" | "call";
  readonly party: "customer" | "responder";
  readonly address: string;
  /** Null when the party has received it. */
  readonly written: WrittenMessage | null;
  readonly subject: string | null;
  readonly text: string;
  readonly messageId: string | null;
}

/** Identifies the event that the channel stores: see `stagesOf`. */
export interface WrittenMessage {
  readonly channel: string;
  readonly pattern: string;
  readonly index: number;
}

/** An address that chooses a fault, and what happens. */
export interface AddressFault {
  readonly kind: "mail" | "text";
  readonly address: string;
  readonly effect: string;
}

/** Limit of kept messages. */
const mostMessages = 500;

/** Default: the customer has received it, without a subject. */
type RecordedMessage = Pick<PlaygroundMessage, "kind" | "address" | "text"> & Partial<PlaygroundMessage>;

export class Playground {
  readonly mailServer: MailServer;
  readonly smsApi: SmsApi;
  readonly #phone: Phone;
  readonly #onMessage: (message: PlaygroundMessage) => void;
  readonly #closed = new AbortController();
  readonly #messages: PlaygroundMessage[] = [];
  #daemon = "";
  #count = 0;
  #mails = 0;
  #call: PhoneCall | null = null;

  private constructor(
    mailServer: MailServer,
    smsApi: SmsApi,
    phone: Phone,
    onMessage: (message: PlaygroundMessage) => void,
  ) {
    this.mailServer = mailServer;
    this.smsApi = smsApi;
    this.#phone = phone;
    this.#onMessage = onMessage;
  }

  /** Starts the servers. `password`: of the mailbox and of the phone account. `onMessage` is called for every message. */
  static async start(options: {
    readonly password: string;
    readonly onMessage: (message: PlaygroundMessage) => void;
  }): Promise<Playground> {
    const { password } = options;
    let started: Playground | null = null;
    const mailServer = await startMailServer({
      address: support,
      password,
      others: (mail) => void (started ? started.#delivered(mail) : null),
    });
    const smsApi = await SmsApi.start({ accountSid: account, authToken: password, number: numbers.support });
    const phone = new Phone({ accountSid: account, authToken: password });
    const playground = new Playground(mailServer, smsApi, phone, options.onMessage);
    started = playground;
    void playground.#watchTexts().catch(() => undefined); // ends with the provider
    return playground;
  }

  /** Texts and calls go to this URL. */
  reach(url: string): void {
    this.#daemon = url;
    this.smsApi.point({ inbound: `${url}/channels/support-sms/inbound#rc=3&rp=all` });
  }

  /** In the order in which they were written and received. */
  get messages(): readonly PlaygroundMessage[] {
    return this.#messages;
  }

  /** The current call; null without one. */
  get call(): PhoneCall | null {
    return this.#call;
  }

  get faults(): readonly AddressFault[] {
    return [
      ...Object.entries(mailFaults).map(([local, effect]) => ({
        kind: "mail" as const,
        address: `${local}@${faultDomain}`,
        effect: `the relay ${effect}`,
      })),
      ...numberFaults.map(({ number, effect }) => ({ kind: "text" as const, address: number, effect })),
    ];
  }

  /** Writes a mail from the customer. An empty subject answers the newest mail at that address. */
  mail(subject: string, text: string, from: string = customer): void {
    const newest = this.#newestMail(from);
    const answers = subject === "" || subject === `Re: ${newest?.subject?.replace(/^Re: /, "")}` ? newest : undefined;
    const own = subject || (newest ? `Re: ${newest.subject?.replace(/^Re: /, "")}` : "Question");
    this.#write("customer", from, own, text, answers?.messageId ?? null);
  }

  /** Answers a notification as the responder; the newest one by default. Returns false without a notification. */
  respond(text: string, notification?: number): boolean {
    const received = this.#messages.filter(({ party, written }) => party === "responder" && written === null);
    const answered = notification === undefined ? received.at(-1) : received.find(({ id }) => id === notification);
    if (!answered) return false;
    const subject = `Re: ${answered.subject?.replace(/^Re: /, "")}`;
    this.#write("responder", answered.address, subject, text, answered.messageId);
    return true;
  }

  #write(party: "customer" | "responder", from: string, subject: string, text: string, answers: string | null): void {
    this.#mails += 1;
    const messageId = `<demo-${this.#mails}@customer.example>`;
    const uid = this.mailServer.deliver(rawMail({ from, subject, text, answers, messageId, party }));
    const written = { channel: "support-mail", pattern: `%/${uid}`, index: 0 };
    this.#record({ kind: "mail", party, address: from, written, subject, text, messageId });
  }

  /** Sends a text. Resolves when the webhook was answered. */
  async text(body: string, from: string = numbers.customer): Promise<void> {
    const before = this.smsApi.inbound.length;
    const sending = this.smsApi.receive({ from, body });
    const sid = this.smsApi.inbound[before]?.sid ?? "";
    const written = { channel: "support-sms", pattern: sid, index: 0 };
    this.#record({ kind: "text", address: from, written, text: body });
    await sending;
  }

  /** Calls the agent's number. Resolves when the greeting was spoken. Returns false when there is a call. */
  async dial(): Promise<boolean> {
    if (this.#call) return false;
    this.#record({ kind: "call", address: numbers.customer, written: inCall, text: `calls ${numbers.support}` });
    const call = await this.#phone.dial({
      url: `${this.#daemon}/channels/support-voice/call`,
      from: numbers.customer,
      to: numbers.support,
    });
    this.#call = call;
    void this.#listen(call);
    if (call.state === "talking") await call.until(({ spoken }) => finished(spoken[0]));
    return true;
  }

  /** Resolves when the answer was spoken. Returns false without a call. */
  async say(text: string): Promise<boolean> {
    const call = this.#call;
    if (!call) return false;
    const before = call.spoken.length;
    const said = this.#messages.filter(({ written }) => written?.pattern === `${call.sid}/%`).length;
    const written = { ...inCall, pattern: `${call.sid}/%`, index: said };
    this.#record({ kind: "call", address: call.from, written, text });
    call.say(text);
    await call.until(({ spoken, state }) => state === "over" || finished(spoken[before]), forEver);
    // The last sentence is being recorded.
    await systemClock.sleep(20);
    return true;
  }

  /** Returns false without a call. */
  async hangUp(): Promise<boolean> {
    const call = this.#call;
    if (!call) return false;
    this.#record({ kind: "call", address: call.from, written: inCall, text: "hangs up" });
    await call.hangUp();
    return true;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#phone.close();
    await Promise.all([this.smsApi.close(), this.mailServer.close()]);
  }

  #record(message: RecordedMessage): void {
    this.#count += 1;
    const received = { party: "customer", written: null, subject: null, messageId: null } as const;
    const recorded = { ...received, ...message, id: this.#count, at: systemClock.now() };
    this.#messages.push(recorded);
    if (this.#messages.length > mostMessages) this.#messages.shift();
    this.#onMessage(recorded);
  }

  #newestMail(address: string): PlaygroundMessage | undefined {
    return this.#messages.findLast((one) => one.kind === "mail" && one.address === address && one.written === null);
  }

  async #delivered({ to, raw }: Delivered): Promise<void> {
    const { subject, text, messageId } = await readReply(raw);
    for (const address of to) {
      const party = address === responder ? "responder" : "customer";
      this.#record({ kind: "mail", party, address, subject, text, messageId });
    }
  }

  /** Records each of our texts when the provider accepts it. */
  async #watchTexts(): Promise<void> {
    const { signal } = this.#closed;
    for (let next = 0; !signal.aborted; next += 1) {
      const sent = await this.smsApi.until((api) => signal.aborted || api.sent[next], forEver);
      if (sent !== true) this.#record({ kind: "text", address: sent.to, text: sent.body });
    }
  }

  /** Records what the agent says, until the call is over. */
  async #listen(call: PhoneCall): Promise<void> {
    const over = () => call.state === "over" && "over";
    const heard = (text: string) => this.#record({ kind: "call", address: call.from, text });
    for (let next = 0; ; next += 1) {
      const piece = await call.until(() => piecesOf(call)[next] ?? over(), forEver);
      if (piece === "over" && piecesOf(call).length <= next) break;
      heard(String(piece).trim());
    }
    heard(`The call is over: ${await call.over}.`);
    if (this.#call === call) this.#call = null;
  }
}

/** What the customer does in a call without saying anything. */
const inCall: WrittenMessage = { channel: "support-voice", pattern: "", index: 0 };

/** Longest wait of a timer. */
const forEver = 2 ** 31 - 1;

/** What is heard, as it comes: the greeting, then sentence by sentence. */
const piecesOf = ({ spoken }: PhoneCall): string[] =>
  spoken
    .flatMap(({ tokens, text }) => (tokens.length > 0 ? tokens.map((token) => token.text) : [text]))
    .filter((text) => text.trim() !== "");

const finished = <T extends { readonly done: boolean }>(spoken: T | undefined): T | null =>
  spoken?.done ? spoken : null;

/** Builds a raw email with CRLF line ends. */
function rawMail(mail: {
  readonly from: string;
  readonly subject: string;
  readonly text: string;
  readonly answers: string | null;
  readonly messageId: string;
  readonly party: "customer" | "responder";
}): string {
  const encoded = (text: string) => Buffer.from(text, "utf8").toString("base64");
  const plain = /^[\x20-\x7e]*$/.test(mail.subject);
  const headers = [
    `From: ${mail.party === "responder" ? "Ben" : "Anna Example"} <${mail.from}>`,
    `To: ${support}`,
    `Subject: ${plain ? mail.subject : `=?utf-8?B?${encoded(mail.subject)}?=`}`,
    `Message-ID: ${mail.messageId}`,
    `Date: ${new Date(systemClock.now()).toUTCString().replace("GMT", "+0000")}`,
    ...(mail.answers ? [`In-Reply-To: ${mail.answers}`, `References: ${mail.answers}`] : []),
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "Content-Transfer-Encoding: base64",
  ];
  const lines = encoded(mail.text).match(/.{1,76}/g) ?? [];
  return `${headers.join("\r\n")}\r\n\r\n${lines.join("\r\n")}\r\n`;
}
