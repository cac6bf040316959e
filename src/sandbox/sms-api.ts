// Fake Twilio account for SMS and calls: the REST API over HTTP with injectable faults, and customers who
// send texts as signed webhooks. Used by the demo and the tests; nothing is persistent.

import { randomUUID } from "node:crypto";
import type { Clock } from "bridgehead/contract";
import { systemClock } from "../ops/clock.ts";
import { createChanges } from "./changes.ts";
import { createFaults, type FaultRule, type SmsFault } from "./sms-faults.ts";
import { type FakeCall, newSid, type SmsMedia, type SmsMessage } from "./sms-records.ts";
import { type Create, serveApi } from "./sms-server.ts";
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

export interface SmsApiOptions {
  readonly accountSid: string;
  readonly authToken: string;
  /** A second credential, like a Twilio API key. */
  readonly apiKey?: { readonly sid: string; readonly secret: string };
  /** Our number: the default `to` of texts from customers. */
  readonly number: string;
  /** Statuses that the status callback reports for each accepted text, in this order. Default: sent,
   *  delivered. */
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
  readonly media?: readonly {
    readonly type: string;
    readonly bytes: Uint8Array;
    readonly location?: string;
  }[];
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

export interface SmsApi {
  /** Base URL for `api_url`. */
  readonly url: string;
  /** Every request to create a message, including rejected and aborted ones. Append-only. */
  readonly creates: readonly Create[];
  /** Texts of ours that the provider accepted. Append-only. */
  readonly sent: readonly SmsMessage[];
  /** Texts from customers. Append-only. */
  readonly inbound: readonly SmsMessage[];
  /** Calls that we requested. Append-only. */
  readonly calls: readonly FakeCall[];
  /** Decoded query of every request that lists messages. Append-only. */
  readonly lists: readonly string[];
  /** Every status callback and the response to it. Append-only. */
  readonly callbacks: readonly { readonly sid: string; readonly status: string; readonly posted: Posted }[];
  /** Media requests at the CDN, and whether they carried credentials. Append-only. */
  readonly fetched: readonly { readonly sid: string; readonly authorization: boolean }[];
  /** Sets the webhook URLs; a daemon's port is known only after its start. */
  point(webhooks: WebhookUrls): void;
  /** Sends a text from a customer. Resolves after the webhook and its retries; a failed webhook does not
   *  reject. */
  receive(text: PersonText): Promise<ReceivedText>;
  /** Sends the same text again, like a retry of the provider. */
  repeat(message: SmsMessage, more?: TwilioForm): Promise<readonly Posted[]>;
  /** Posts a status callback for a text now, regardless of `progress`. */
  report(message: SmsMessage, status: string, errorCode?: number): Promise<Posted | null>;
  /** Posts a call status now: ringing, in-progress, completed, busy, no-answer, failed. */
  reportCall(call: FakeCall, status: string): Promise<Posted | null>;
  /** Replaces the statuses for texts from now on; `[]` disables status callbacks. */
  progress(statuses: readonly string[]): void;
  fault(fault: SmsFault, rule?: FaultRule): void;
  heal(): void;
  /** Stops listening until `up`, which reuses the same address. */
  down(): Promise<void>;
  up(): Promise<void>;
  /** Resolves with the result of `look` when it is not undefined, false or null. */
  until<T>(look: (api: SmsApi) => T, withinMs?: number): Promise<NonNullable<T>>;
  close(): Promise<void>;
}

/** Listens on free ports of 127.0.0.1. */
export async function startSmsApi(options: SmsApiOptions): Promise<SmsApi> {
  const { clock = systemClock } = options;
  const changes = createChanges();
  const faults = createFaults();
  const ends = new AbortController();
  const callbacks: { sid: string; status: string; posted: Posted }[] = [];
  const inbound: SmsMessage[] = [];
  const forms = new Map<string, { form: TwilioForm; token: string }>();
  let webhooks = options.webhooks;
  let progress = options.progress ?? ["sent", "delivered"];

  const server = await serveApi({
    ...options,
    clock,
    faults,
    inbound,
    webhook: () => webhooks?.inbound,
    changed: () => changes.happened(),
    taken: (message, fails) => void follow(message, fails),
  });
  const account: Account = {
    sid: options.accountSid,
    token: options.authToken,
    url: server.url,
    signal: ends.signal,
  };

  /** Posts the statuses of an accepted text one after another; each waits for the previous response. */
  async function follow(message: SmsMessage, fails: { code: number; as: string } | null): Promise<void> {
    const statuses = fails ? ["sent", fails.as] : progress;
    for (const status of statuses)
      await report(message, status, fails?.as === status ? fails.code : undefined);
  }

  async function report(message: SmsMessage, status: string, errorCode?: number): Promise<Posted | null> {
    message.status = status;
    message.errorCode = errorCode ?? null;
    const posted = await postStatus(account, { ...message }, webhooks?.via);
    if (posted) callbacks.push({ sid: message.sid, status, posted });
    changes.happened();
    return posted;
  }

  async function repeat(message: SmsMessage, more?: TwilioForm): Promise<readonly Posted[]> {
    if (webhooks === undefined) return [];
    const known = forms.get(message.sid);
    const form = { ...(known?.form ?? inboundForm(account, message)), ...more };
    const tries = await postInbound(account, webhooks, form, known?.token ?? randomUUID());
    const said = /<Message[^>]*>(.*?)<\/Message>/s.exec(tries.at(-1)?.body ?? "");
    if (said) server.replied(message, said[1] ?? "");
    changes.happened();
    return tries;
  }

  const api: SmsApi = {
    url: server.url,
    creates: server.creates,
    sent: server.sent,
    inbound,
    calls: server.calls,
    lists: server.lists,
    callbacks,
    fetched: server.fetched,
    point: (next) => void (webhooks = next),
    async receive(text) {
      const message = textOf(text, options.number, clock.now());
      inbound.push(message);
      forms.set(message.sid, { form: inboundForm(account, message, text.more), token: randomUUID() });
      changes.happened();
      return { message, tries: text.webhook === false ? [] : await repeat(message) };
    },
    repeat,
    report,
    async reportCall(call, status) {
      call.status = status;
      return postCallStatus(account, call, webhooks?.via);
    },
    progress: (statuses) => void (progress = statuses),
    fault: (fault, rule) => faults.add(fault, rule),
    heal: () => faults.heal(),
    down: () => server.down(),
    up: () => server.up(),
    until: (look, withinMs) => changes.until(() => look(api), String(look), withinMs),
    async close() {
      ends.abort();
      await server.close();
    },
  };
  return api;
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
