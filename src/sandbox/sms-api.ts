// Fake Twilio account for SMS and calls: the REST API over HTTP with injectable faults, and customers who
// send texts as signed webhooks. Used by the demo and the tests; nothing is persistent.

import { randomUUID } from "node:crypto";
import type { Clock } from "bridgehead/contract";
import { systemClock } from "../ops/clock.ts";
import { Changes } from "./changes.ts";
import { type FaultRule, Faults, type SmsFault } from "./sms-faults.ts";
import { type FakeCall, newSid, type SmsMedia, type SmsMessage } from "./sms-records.ts";
import { ApiServer, type Create, type ServerOptions } from "./sms-server.ts";
import {
  type Account,
  inboundForm,
  type Posted,
  postCallStatus,
  postInbound,
  postStatus,
  type TwilioForm,
  type WebhookUrls,
} from "./twilio-webhooks.ts";

export interface SmsApiOptions extends Pick<ServerOptions, "accountSid" | "authToken" | "apiKey" | "number"> {
  /** Statuses that the status callback reports for each accepted text, in this order. Default: sent, delivered. */
  readonly progress?: readonly string[];
  readonly webhooks?: WebhookUrls;
  readonly clock?: Clock;
}

/** A text sent by a customer. */
export interface PersonText {
  readonly from: string;
  readonly body: string;
  /** Default: the account's number. */
  readonly to?: string;
  readonly media?: readonly { readonly type: string; readonly bytes: Uint8Array }[];
  /** Additional or overriding form fields: OptOutType, ProfileName ... */
  readonly more?: TwilioForm;
  /** False stores the text at the provider without a webhook, as if all its attempts had failed. */
  readonly webhook?: boolean;
}

export interface ReceivedText {
  readonly message: SmsMessage;
  /** Every webhook attempt in order; empty when the webhook is disabled. */
  readonly tries: readonly Posted[];
}

/** The account. Lists are append-only. */
export class SmsApi {
  /** Texts from customers. */
  readonly inbound: SmsMessage[] = [];
  /** Every request to create a message, including rejected and aborted ones. */
  readonly creates: readonly Create[];
  /** Our texts that the provider accepted. */
  readonly sent: readonly SmsMessage[];
  readonly calls: readonly FakeCall[];
  /** Decoded query of every request that lists messages. */
  readonly lists: readonly string[];
  /** Media requests at the CDN, and whether they carried credentials. */
  readonly fetched: ApiServer["fetched"];
  /** Every status callback and the response to it. */
  readonly callbacks: { readonly sid: string; readonly status: string; readonly posted: Posted }[] = [];
  readonly #options: SmsApiOptions;
  readonly #clock: Clock;
  readonly #changes = new Changes();
  readonly #faults = new Faults();
  readonly #ends = new AbortController();
  readonly #forms = new Map<string, { readonly form: TwilioForm; readonly token: string }>();
  readonly #server: ApiServer;
  #webhooks: WebhookUrls | undefined;
  #progress: readonly string[];

  private constructor(options: SmsApiOptions) {
    const { clock = systemClock, webhooks, progress = ["sent", "delivered"] } = options;
    this.#options = options;
    this.#clock = clock;
    this.#webhooks = webhooks;
    this.#progress = progress;
    this.#server = new ApiServer({
      ...options,
      clock,
      faults: this.#faults,
      inbound: this.inbound,
      webhook: () => this.#webhooks?.inbound,
      changed: () => this.#changes.happened(),
      taken: (message, fails) => void this.#follow(message, fails),
    });
    const { creates, sent, calls, lists, fetched } = this.#server;
    [this.creates, this.sent, this.calls, this.lists, this.fetched] = [creates, sent, calls, lists, fetched];
  }

  /** Listens on free ports of 127.0.0.1. */
  static async start(options: SmsApiOptions): Promise<SmsApi> {
    const api = new SmsApi(options);
    await api.#server.listen();
    return api;
  }

  get url(): string {
    return this.#server.url;
  }

  /** Sets the webhook URLs; a daemon's port is known only after its start. */
  point(webhooks: WebhookUrls): void {
    this.#webhooks = webhooks;
  }

  /** Sends a text from a customer. Resolves after the webhook and its retries; a failed webhook does not reject. */
  async receive(text: PersonText): Promise<ReceivedText> {
    const message = textOf(text, this.#options.number, this.#clock.now());
    this.inbound.push(message);
    const form = inboundForm(this.#account, message, text.more);
    this.#forms.set(message.sid, { form, token: randomUUID() });
    this.#changes.happened();
    return { message, tries: text.webhook === false ? [] : await this.repeat(message) };
  }

  /** Sends the same text again, like a retry of the provider. */
  async repeat(message: SmsMessage): Promise<readonly Posted[]> {
    if (this.#webhooks === undefined) return [];
    const known = this.#forms.get(message.sid);
    const form = known?.form ?? inboundForm(this.#account, message);
    const tries = await postInbound(this.#account, this.#webhooks, form, known?.token ?? randomUUID());
    const said = /<Message[^>]*>(.*?)<\/Message>/s.exec(tries.at(-1)?.body ?? "");
    if (said) this.#server.replied(message, said[1] ?? "");
    this.#changes.happened();
    return tries;
  }

  /** Posts a status callback for a text now, regardless of `progress`. */
  async report(message: SmsMessage, status: string, errorCode?: number): Promise<Posted | null> {
    message.status = status;
    message.errorCode = errorCode ?? null;
    const posted = await postStatus(this.#account, { ...message }, this.#webhooks?.via);
    if (posted) this.callbacks.push({ sid: message.sid, status, posted });
    this.#changes.happened();
    return posted;
  }

  /** Posts a call status now: ringing, in-progress, completed, busy, no-answer, failed. */
  async reportCall(call: FakeCall, status: string): Promise<Posted | null> {
    call.status = status;
    return postCallStatus(this.#account, call, this.#webhooks?.via);
  }

  /** Replaces the statuses for texts from now on; `[]` disables status callbacks. */
  progress(statuses: readonly string[]): void {
    this.#progress = statuses;
  }

  fault(fault: SmsFault, rule?: FaultRule): void {
    this.#faults.add(fault, rule);
  }

  heal(): void {
    this.#faults.heal();
  }

  /** Stops listening until `up`, which reuses the same address. */
  down(): Promise<void> {
    return this.#server.down();
  }

  up(): Promise<void> {
    return this.#server.up();
  }

  /** Resolves with the result of `look` when it is not undefined, false or null. */
  until<T>(look: (api: SmsApi) => T, withinMs?: number): Promise<NonNullable<T>> {
    return this.#changes.until(() => look(this), String(look), withinMs);
  }

  async close(): Promise<void> {
    this.#ends.abort();
    await this.#server.close();
  }

  get #account(): Account {
    const { accountSid: sid, authToken: token } = this.#options;
    return { sid, token, url: this.url, signal: this.#ends.signal };
  }

  /** Posts the statuses of an accepted text one after another; each waits for the previous response. */
  async #follow(message: SmsMessage, fails: { code: number; as: string } | null): Promise<void> {
    const statuses = fails ? ["sent", fails.as] : this.#progress;
    for (const status of statuses) await this.report(message, status, fails?.as === status ? fails.code : undefined);
  }
}

function textOf({ from, to, body, media = [] }: PersonText, number: string, now: number): SmsMessage {
  const kept = media.map((one): SmsMedia => ({ ...one, sid: newSid("ME") }));
  return {
    sid: newSid(kept.length > 0 ? "MM" : "SM"),
    direction: "inbound",
    from,
    to: to ?? number,
    body,
    service: null,
    media: kept,
    createdAt: now,
    statusCallback: null,
    status: "received",
    errorCode: null,
  };
}
