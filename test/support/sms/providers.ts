// The SMS adapter at the sandbox's Twilio: the adapter on a channel in memory, requests as Twilio posts
// them, attempts that remember their crossing. And Telnyx.

import { generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as pass } from "node:timers/promises";
import { type Attempt, type HttpRoute, type Json, type Reply, sendKey } from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import { getExpectedTwilioSignature } from "twilio/lib/webhooks/webhooks.js";
import type * as z from "zod";
import type { config } from "../../../adapters/sms/config.ts";
import sms from "../../../adapters/sms/index.ts";
import { segmentsOf } from "../../../adapters/sms/text/segments.ts";
import { SmsApi } from "../../../src/sandbox/sms-api.ts";
import { certificate, startTcpProxy } from "../machine/network.ts";
import { replyOf } from "../rows.ts";

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

/** The adapter on a fresh channel, or on one that an earlier process has used. */
export function openTwilio(apiUrl: string, more: Settings = {}, channel: RecordingChannel = recordingChannel()) {
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

export const replyTo = (to: string, text: string, more: Partial<Reply> = {}): Reply =>
  replyOf({
    key: sendKey("01hzx7key"),
    createdAt: new Date("2026-11-20T10:00:00Z"),
    to: [{ address: to }],
    text,
    ...more,
  });

/** Composes and sends one text; what came of it. */
export async function sendText(
  { adapter }: ReturnType<typeof openTwilio>,
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

// Telnyx: its interface over real HTTPS, and webhooks signed with a real Ed25519 key, repeated until they are taken.

export const apiKey = "KEY-of-the-desk";

export interface Posted {
  readonly id: string;
  readonly from?: string;
  readonly to: string;
  readonly text: string;
  readonly webhook_url: string;
  readonly [field: string]: unknown;
}

export type TelnyxFault =
  | { readonly status: number; readonly body?: unknown; readonly headers?: Record<string, string> }
  | "cut-taken"
  | "hang-taken"
  | "none";

const pair = generateKeyPairSync("ed25519");
/** As the portal shows it. */
export const publicKey = pair.publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64");

/** One of Telnyx's requests to us. `at`: seconds of its time stamp. */
export function webhook(url: URL, body: string, options: { at?: number; key?: typeof pair.privateKey } = {}): Request {
  const at = String(options.at ?? Math.floor(Date.now() / 1000));
  const signature = sign(null, Buffer.from(`${at}|${body}`), options.key ?? pair.privateKey).toString("base64");
  const headers = {
    "content-type": "application/json",
    "telnyx-timestamp": at,
    "telnyx-signature-ed25519": signature,
  };
  return new Request(url, { method: "POST", headers, body });
}

export function event(type: string, payload: object): string {
  const data = {
    event_type: type,
    id: randomUUID(),
    occurred_at: "2026-11-21T12:00:00.000Z",
    record_type: "event",
    payload,
  };
  return JSON.stringify({ data, meta: { attempt: 1 } });
}

export function received(id: string, text: string, more: object = {}): string {
  return event("message.received", {
    id,
    direction: "inbound",
    type: "SMS",
    from: { phone_number: "+15550177", carrier: "", line_type: "" },
    to: [{ phone_number: "+15550100", status: "webhook_delivered" }],
    text,
    media: [],
    errors: [],
    received_at: "2026-11-21T12:00:00.000+00:00",
    ...more,
  });
}

export function finalized(id: string, status: string, more: object = {}): string {
  return event(status === "sent" ? "message.sent" : "message.finalized", {
    id,
    direction: "outbound",
    to: [{ phone_number: "+15550177", status }],
    from: { phone_number: "+15550100" },
    errors: [],
    ...more,
  });
}

export async function startTelnyx() {
  const { key, cert } = certificate();
  const posted: Posted[] = [];
  const headers: IncomingMessage["headers"][] = [];
  let fault: TelnyxFault = "none";

  const answer = (response: ServerResponse, status: number, body: unknown, more: Record<string, string> = {}) =>
    void response.writeHead(status, { "content-type": "application/json", ...more }).end(JSON.stringify(body));

  const server = createServer({ key, cert }, (request, response) => void serve(request, response));
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    headers.push(request.headers);
    if (request.headers.authorization !== `Bearer ${apiKey}`)
      return answer(response, 401, { errors: [{ code: "10009", title: "Authentication failed" }] });
    if (request.method === "GET") return answer(response, 200, { data: [] });
    if (typeof fault === "object") return answer(response, fault.status, fault.body ?? {}, fault.headers);
    const message: Posted = { ...(JSON.parse(body) as Posted), id: randomUUID() };
    if (segmentsOf(message.text).texts.length > 10)
      return answer(response, 400, { errors: [{ code: "40302", title: "Message too large" }] });
    posted.push(message);
    if (fault === "cut-taken") return void request.socket.destroy();
    if (fault === "hang-taken") return;
    const { webhook_url: url, to } = message;
    answer(response, 200, {
      data: { id: message.id, to: [{ phone_number: to, status: "queued" }], webhook_url: url },
    });
  }
  // Those whose handshake never ended too; the server itself does not know them yet.
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket.once("close", () => sockets.delete(socket))));
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const line = await startTcpProxy((server.address() as AddressInfo).port);
  const stopped = new AbortController();

  return {
    url: `https://127.0.0.1:${line.port}`,
    ca: cert,
    line,
    posted,
    headers,
    fault: (next: TelnyxFault) => void (fault = next),
    /** Repeats the request until it is accepted, like the real provider (which gives up eventually). */
    async deliver(post: () => Promise<number>): Promise<void> {
      while (!stopped.signal.aborted && (await post()) >= 300)
        await pass(20, undefined, { signal: stopped.signal }).catch(() => undefined);
    },
    async close(): Promise<void> {
      stopped.abort();
      await line.close();
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
