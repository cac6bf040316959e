// A desk that answers texts through the sandbox's Twilio: the adapter on a channel in memory, requests as Twilio posts
// them, attempts that remember their crossing.

import {
  type Attempt,
  type HttpRoute,
  type Json,
  type Reply,
  sendKey,
  threadToken,
} from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import { getExpectedTwilioSignature } from "twilio/lib/webhooks/webhooks.js";
import type * as z from "zod";
import type { config } from "../../../adapters/sms/config.ts";
import sms from "../../../adapters/sms/index.ts";
import { SmsApi } from "../../../src/sandbox/sms-api.ts";

export type Settings = z.input<typeof config>;

export const account = `AC${"a".repeat(32)}`;
export const token = "twilio-auth-token";
export const ours = "+15550100";
export const person = "+15550177";

/** The block of a channel at that interface, with quick looks. */
export function settings(apiUrl: string, more: Settings = {}): Settings {
  return {
    account_sid: account,
    auth_tokens: [token],
    number: ours,
    api_url: apiUrl,
    backfill: { every: "100ms", after: "0ms", overlap: "10m" },
    ...more,
  };
}

export function startApi(more: Partial<Parameters<typeof SmsApi.start>[0]> = {}): Promise<SmsApi> {
  return SmsApi.start({ accountSid: account, authToken: token, number: ours, progress: [], ...more });
}

/** The adapter on a fresh channel, or on one that an earlier life has used. */
export function desk(apiUrl: string, more: Settings = {}, channel: RecordingChannel = recordingChannel()) {
  const adapter = sms.create(channel, sms.config.parse(settings(apiUrl, more)));
  const post = async (path: string, request: Request): Promise<Response> => {
    const route = adapter.routes?.find((one): one is HttpRoute => one.kind === "http" && one.path === path);
    if (!route) throw new Error(`no route ${path}`);
    return route.handle(request);
  };
  return { adapter, channel, post };
}

export type Fields = Readonly<Record<string, string>>;

/** The form of a text, as Twilio posts it. */
export function textForm(sid: string, body: string, more: Fields = {}): Fields {
  return {
    MessageSid: sid,
    SmsSid: sid,
    AccountSid: account,
    From: person,
    To: ours,
    Body: body,
    NumMedia: "0",
    NumSegments: "1",
    FromCity: "",
    SmsStatus: "received",
    ApiVersion: "2010-04-01",
    ...more,
  };
}

export function statusForm(sid: string, status: string, more: Fields = {}): Fields {
  return {
    MessageSid: sid,
    SmsSid: sid,
    MessageStatus: status,
    AccountSid: account,
    From: ours,
    To: person,
    ...more,
  };
}

/** A post to `url`, signed over `signedUrl` with `key`; null: not signed. */
export function signed(
  url: string | URL,
  form: Fields,
  { key = token, signedUrl = String(url) }: { key?: string | null; signedUrl?: string } = {},
): Request {
  const signature = key === null ? null : getExpectedTwilioSignature(key, signedUrl, { ...form });
  return new Request(String(url), {
    method: "POST",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      ...(signature === null ? {} : { "x-twilio-signature": signature }),
    },
    body: new URLSearchParams(form).toString(),
  });
}

export interface Try extends Attempt {
  readonly crossed: boolean;
}

export function attempt(key = "01hzx7key", ms = 60_000): Try {
  let crossed = false;
  return {
    key: sendKey(key),
    number: 1,
    signal: AbortSignal.timeout(ms),
    crossing: async () => {
      crossed = true;
    },
    read: noFiles,
    get crossed() {
      return crossed;
    },
  };
}

export function replyTo(to: string, text: string, more: Partial<Reply> = {}): Reply {
  return {
    kind: "answer",
    key: sendKey("01hzx7key"),
    createdAt: new Date("2026-11-20T10:00:00Z"),
    to: [{ address: to }],
    cc: [],
    subject: null,
    text,
    signature: null,
    introduction: null,
    senderName: null,
    answers: null,
    history: [],
    token: threadToken("tok3ntok3ntok3n"),
    hops: 0,
    session: null,
    ...more,
  };
}

/** Composes and sends one text; what came of it. */
export async function sendText(
  { adapter }: ReturnType<typeof desk>,
  to: string,
  text: string,
  tried: Try = attempt(),
) {
  const [draft] = adapter.outbound?.compose(replyTo(to, text)) ?? [];
  if (!adapter.outbound || draft === undefined) throw new Error("nothing to send");
  const stored = JSON.parse(JSON.stringify(draft)) as typeof draft;
  const outcome = await adapter.outbound.send(stored, tried);
  return { outcome, draft: stored satisfies Json, crossed: tried.crossed };
}
