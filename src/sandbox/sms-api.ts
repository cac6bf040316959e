// A Twilio account for texts and calls that needs no account: its REST API over HTTP with faults on demand, and the people
// at the other end, whose texts come as signed webhooks. For the demo and the tests; keeps nothing.

import { randomUUID } from "node:crypto";
import type { Clock } from "bridgehead/contract";
import { systemClock } from "../ops/clock.ts";
import { createChanges } from "./changes.ts";
import type { Form, Posted } from "./signed-post.ts";
import { createFaults, type Fault, type FaultRule } from "./sms-faults.ts";
import { type CallRecord, newSid, type SmsMedia, type SmsMessage } from "./sms-records.ts";
import { type Create, serveApi } from "./sms-server.ts";
import {
  type Account,
  inboundForm,
  postCallStatus,
  postInbound,
  postStatus,
  type Webhooks,
} from "./sms-webhooks.ts";

export interface SmsApiOptions {
  readonly accountSid: string;
  readonly authToken: string;
  /** A second login, as API keys are. */
  readonly apiKey?: { readonly sid: string; readonly secret: string };
  /** Our number: the `to` of what people send. */
  readonly number: string;
  /** What the status callback says of every text that was taken, in this order. Default: sent, delivered. */
  readonly progress?: readonly string[];
  readonly webhooks?: Webhooks;
  readonly clock?: Clock;
}

/** What a person sends. */
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
  /** Form fields over the usual ones: OptOutType, ProfileName ... */
  readonly more?: Form;
  /** False: it lies at the provider and nobody is told, as when all tries failed. */
  readonly webhook?: boolean;
}

export interface Received {
  readonly message: SmsMessage;
  /** Every try of the webhook, in order; empty when nobody was told. */
  readonly tries: readonly Posted[];
}

export interface SmsApi {
  /** For `api_url`. */
  readonly url: string;
  /** Every request to create a message, also what was refused or cut. Only grows. */
  readonly creates: readonly Create[];
  /** Texts of ours that the provider has taken. Only grows. */
  readonly sent: readonly SmsMessage[];
  /** Texts of people. Only grows. */
  readonly inbound: readonly SmsMessage[];
  /** Calls we asked for. Only grows. */
  readonly calls: readonly CallRecord[];
  /** The query of every request for the list of messages, decoded. Only grows. */
  readonly lists: readonly string[];
  /** Every status callback and how it was answered. Only grows. */
  readonly callbacks: readonly { readonly sid: string; readonly status: string; readonly posted: Posted }[];
  /** Requests of media at the CDN, and whether credentials came with them. Only grows. */
  readonly fetched: readonly { readonly sid: string; readonly authorization: boolean }[];
  /** Sets where webhooks go; a daemon's port is known late. */
  point(webhooks: Webhooks): void;
  /** A person texts. Resolves when the webhook, with its repeats, is over; never rejects for its sake. */
  receive(text: PersonText): Promise<Received>;
  /** The same text once more, as a repeat of the provider. */
  repeat(message: SmsMessage, more?: Form): Promise<readonly Posted[]>;
  /** Says now what became of a text, whatever the progress says. */
  report(message: SmsMessage, status: string, errorCode?: number): Promise<Posted | null>;
  /** Says now how far a call is: ringing, in-progress, completed, busy, no-answer, failed. */
  reportCall(call: CallRecord, status: string): Promise<Posted | null>;
  /** From now on; `[]` says nothing. */
  progress(statuses: readonly string[]): void;
  fault(fault: Fault, rule?: FaultRule): void;
  heal(): void;
  /** Nobody listens any more, until `up` at the same address. */
  down(): Promise<void>;
  up(): Promise<void>;
  /** Resolves with what `look` finds when that is no longer undefined, false or null. */
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
  const forms = new Map<string, { form: Form; token: string }>();
  let webhooks = options.webhooks;
  let progress = options.progress ?? ["sent", "delivered"];

  const server = await serveApi({
    ...options,
    clock,
    faults,
    inbound,
    changed: () => changes.happened(),
    taken: (message, fails) => void follow(message, fails),
  });
  const account: Account = {
    sid: options.accountSid,
    token: options.authToken,
    url: server.url,
    signal: ends.signal,
  };

  /** A text on its way to the person: one status after another, each told before the next. */
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

  async function repeat(message: SmsMessage, more?: Form): Promise<readonly Posted[]> {
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
