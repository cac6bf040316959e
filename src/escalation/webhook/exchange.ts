// One HTTP exchange: the request over an open connection, the outcome of the delivery, and a responder's reply in the
// response.

import { request } from "node:http";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { parsedJson, type SendOutcome } from "bridgehead/contract";
import { type Destination, hostOf, type ResolvedAddress } from "../../ops/address.ts";

export interface WebhookResponse {
  readonly status: number;
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined };
  /** Body of a successful response. Null when it was too long or incomplete; the status counts in that case too. */
  readonly text: string | null;
}

const longestAnswer = 64 * 1024;

/** Redirects are not followed. Rejects when there is no response; the result of the delivery is then
 *  unknown. The connection is closed at the end. */
export async function post(
  socket: Socket,
  url: URL,
  headers: { readonly [name: string]: string },
  body: string,
  signal: AbortSignal,
): Promise<WebhookResponse> {
  const stop = () => socket.destroy(new Error("no answer came in time"));
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await answerTo(socket, url, headers, body);
  } finally {
    signal.removeEventListener("abort", stop);
    socket.destroy();
  }
}

function answerTo(
  socket: Socket,
  url: URL,
  headers: { readonly [name: string]: string },
  body: string,
): Promise<WebhookResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<WebhookResponse>();
  const call = request({
    createConnection: () => socket,
    method: "POST",
    path: url.pathname + url.search,
    setHost: false,
    headers: { ...headers, host: url.host, "content-length": String(Buffer.byteLength(body)) },
  });
  // Connection errors after the status was received do not change the result.
  let broken: (error: Error) => void = reject;
  call.on("error", (error) => broken(error));
  call.on("close", () => broken(new Error("the connection was closed without an answer")));
  call.on("response", (response) => {
    const { statusCode: status = 0, headers: got } = response;
    const settle = (text: string | null) => resolve({ status, headers: got, text });
    broken = () => settle(null);
    response.on("error", () => settle(null));
    if (status < 200 || status > 299) return settle(null);
    const parts: Buffer[] = [];
    let length = 0;
    response.on("data", (part: Buffer) => {
      length += part.length;
      if (length > longestAnswer) return settle(null);
      parts.push(part);
    });
    response.on("end", () => settle(Buffer.concat(parts).toString("utf8")));
  });
  call.end(body);
  return promise;
}

/** Connect timeout per address, in milliseconds. */
export const connectMs = 5000;
const mostAddresses = 4;

/** Rejects with the error of the last address when no address can be reached. */
export async function openConnection(destination: Destination, signal: AbortSignal): Promise<Socket> {
  let last: unknown = new Error("there is no address");
  for (const address of destination.addresses.slice(0, mostAddresses)) {
    signal.throwIfAborted();
    try {
      return await open(destination.url, address, AbortSignal.any([signal, AbortSignal.timeout(connectMs)]));
    } catch (error) {
      last = error;
    }
  }
  throw last;
}

function open(url: URL, { address, family }: ResolvedAddress, signal: AbortSignal): Promise<Socket> {
  const secure = url.protocol === "https:";
  const port = Number(url.port || (secure ? 443 : 80));
  const host = hostOf(url);
  const named = isIP(host) === 0 ? { servername: host } : {};
  const socket = secure
    ? connectTls({ host: address, port, ...named, ALPNProtocols: ["http/1.1"] })
    : connectTcp({ host: address, port, family });
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const stop = () => socket.destroy(new Error("connecting took too long"));
  const done = () => signal.removeEventListener("abort", stop);
  signal.addEventListener("abort", stop, { once: true });
  socket.once(secure ? "secureConnect" : "connect", () => {
    done();
    resolve(socket);
  });
  // The listener stays: a connection that ends before the request starts must not raise an uncaught error.
  socket.on("error", (error) => {
    done();
    reject(error);
  });
  socket.once("close", () => {
    done();
    reject(new Error("the connection was closed before it stood"));
  });
  return promise;
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/** Delays before each retry, as Standard Webhooks recommends. */
const schedule = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
] as const;
const longestWait = 24 * hour;

/** Delay between attempt number `attempt` (from 1) and the next one, in milliseconds. */
const waitAfter = (attempt: number): number =>
  schedule[Math.min(Math.max(attempt, 1), schedule.length) - 1] ?? longestWait;

/** Returns a temporary failure. `atLeast`: minimum delay that the receiver requested. */
export const deferred = (reason: string, attempt: number, atLeast = 0): SendOutcome => ({
  kind: "deferred",
  reason,
  retryAfterMs: Math.max(waitAfter(attempt), Math.min(atLeast, longestWait)),
});

/** Returns null for a success. `nowMs` is the current time, for a Retry-After header that is a date. */
export function failureIn(answer: WebhookResponse, attempt: number, nowMs: number): SendOutcome | null {
  const { status } = answer;
  const reason = `the receiver answered ${status}`;
  if (status >= 200 && status < 300) return null;
  if (status >= 500 || [408, 425, 429].includes(status)) return deferred(reason, attempt, retryAfter(answer, nowMs));
  if (status === 410)
    return { kind: "refused", code: "gone", reason: `${reason}: it wants no more`, scope: "recipient" };
  if (status < 400) return { kind: "refused", code: "redirect", reason: `${reason}: redirects are not followed` };
  return { kind: "refused", code: `http-${status}`, reason };
}

/** RFC 9110 10.2.3: seconds, or a date. */
function retryAfter({ headers }: WebhookResponse, nowMs: number): number {
  const value = String(headers["retry-after"] ?? "").trim();
  const ms = /^\d+$/.test(value) ? Number(value) * second : Date.parse(value) - nowMs;
  return Number.isFinite(ms) ? ms : 0;
}

export interface WebhookReply {
  /** The text of the reply, in the form of a reply to a notification. */
  readonly text: string;
  readonly by: string | null;
}

/** Notification types that accept a reply: an acknowledgement, and text for the customer. Notifications about an
 *  acknowledgement or an error accept none, because two programs could answer each other endlessly. */
const answerable: { readonly [type: string]: { readonly acknowledge: boolean } } = {
  "escalation.opened": { acknowledge: true },
  "escalation.open": { acknowledge: true },
  "escalation.message": { acknowledge: false },
};

/** Returns the reply in the receiver's response to `body`; null for a plain confirmation. Only JSON with
 *  the documented fields counts. */
export function saidIn({ headers, text }: WebhookResponse, body: string): WebhookReply | null {
  const about = answerable[String(objectIn(body)?.["type"])];
  if (!about || text === null || !/^application\/(.+\+)?json\b/i.test(String(headers["content-type"]))) return null;
  const answer = objectIn(text);
  const { reply, acknowledge } = answer ?? {};
  const by = oneLine(answer?.["by"]);
  if (typeof reply === "string" && reply.trim() !== "") return { text: reply, by };
  return acknowledge === true && about.acknowledge ? { text: "ok", by } : null;
}

function objectIn(text: string): { readonly [key: string]: unknown } | null {
  const value = parsedJson(text);
  return value !== null && typeof value === "object" && !Array.isArray(value)
    ? (value as { readonly [key: string]: unknown })
    : null;
}

const longestName = 100;

function oneLine(value: unknown): string | null {
  if (typeof value !== "string") return null;
  const line = value
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .slice(0, longestName);
  return line === "" ? null : line;
}
