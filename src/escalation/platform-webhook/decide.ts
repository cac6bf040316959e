// Parses and authenticates webhooks of the platform: a key in a header and, when `signing_secrets` is
// configured, a signature as defined by Standard Webhooks. The interface specifies no field names
// (External API 6), so all usual places are searched. Parsing never throws.

import { createHmac } from "node:crypto";
import { parsedJson, sameText } from "bridgehead/contract";
import type { Timing } from "../../ops/timing.ts";
import type { ChannelRuntimes } from "../../pipeline/channel-runtime.ts";
import type { EscalationTrigger } from "../../pipeline/escalation.ts";
import { aboutAgent } from "../trigger/decide.ts";
import type { PlatformWebhookRow } from "./rows.ts";

/** Every field is one line of text, truncated to `longest` characters. */
export interface PayloadIn {
  readonly conversation: string | null;
  readonly topic: string | null;
  readonly reason: string | null;
  readonly message: string | null;
  /** The customer: name, mailbox, number. */
  readonly person: string | null;
}

type WebhookFields = { readonly [name: string]: unknown };

const mostDepth = 8;
const mostObjects = 5000;
/** Limits of a form: fields, and characters. */
const mostFields = 500;
const mostForm = 200_000;

/** `body`: JSON, a form, or any other text. Other text becomes the message. */
export function readPayload(body: string): PayloadIn {
  const root = jsonIn(body) ?? formIn(body);
  if (root === null) return { conversation: null, topic: null, reason: null, message: line(body), person: null };
  const objects = objectsIn(root);
  return {
    conversation: firstOf(objects, conversationIn),
    topic: named(objects, ["topic", "escalationtopic"]) ?? named(objects, ["escalation", "category"]),
    reason: named(objects, ["reason", "escalationreason"]) ?? named(objects, ["escalationprompt", "summary"]),
    message: named(objects, ["message", "lastmessage", "usermessage"]) ?? named(objects, ["text", "content"]),
    person: firstOf(objects, personIn),
  };
}

/** Returns null for invalid JSON, and for JSON that is neither an object nor an array. */
function jsonIn(body: string): object | null {
  const value = parsedJson(body);
  return typeof value === "object" ? value : null;
}

/** Parses a form. Fields that contain JSON (`payload={...}`) are parsed as JSON. */
function formIn(body: string): object | null {
  if (!/^[\w.[\]%+-]+=/.test(body.trim())) return null;
  // Cut before it is parsed: the parser of Node.js takes quadratic time for fields without `=`.
  const form = body.trim().slice(0, mostForm).split("&", mostFields).join("&");
  const fields = [...new URLSearchParams(form)].map(([name, value]): [string, unknown] => [
    name,
    (/^\s*[[{]/.test(value) ? jsonIn(value) : null) ?? value,
  ]);
  return Object.fromEntries(fields);
}

/** Returns all objects in breadth-first order, so that fields near the root precede fields of a
 *  transcript's messages. */
function objectsIn(root: object): readonly WebhookFields[] {
  const found: WebhookFields[] = [];
  let level: object[] = [root];
  for (let depth = 0; depth < mostDepth && level.length > 0; depth++) {
    const below: object[] = [];
    for (const one of level) {
      if (!Array.isArray(one)) found.push(simplified(one));
      for (const value of Object.values(one)) {
        if (typeof value !== "object" || value === null) continue;
        if (found.length + below.length >= mostObjects) return found;
        below.push(value);
      }
    }
    level = below;
  }
  return found;
}

/** Normalizes field names: `conversation_id`, `conversation-id` and `conversationID` are equal. The
 *  first value that is not null wins. */
function simplified(object: object): WebhookFields {
  const fields = new Map<string, unknown>();
  for (const [name, value] of Object.entries(object)) {
    const simple = name.toLowerCase().replace(/[^a-z0-9]/g, "");
    fields.set(simple, fields.get(simple) ?? value);
  }
  return Object.fromEntries(fields);
}

function firstOf(objects: readonly WebhookFields[], read: (fields: WebhookFields) => string | null): string | null {
  for (const fields of objects) {
    const value = read(fields);
    if (value !== null) return value;
  }
  return null;
}

const named = (objects: readonly WebhookFields[], names: readonly string[]): string | null =>
  firstOf(objects, (fields) => firstText(names.map((name) => fields[name])));

function conversationIn(fields: WebhookFields): string | null {
  const { conversation } = fields;
  const own = typeof conversation === "object" && conversation !== null ? simplified(conversation) : {};
  return firstText([fields["conversationid"], own["id"], own["conversationid"], conversation]);
}

const people = ["user", "customer", "contact", "conversationuser", "person"];

function personIn(fields: WebhookFields): string | null {
  for (const name of people) {
    const value = fields[name];
    if (typeof value !== "object" || value === null) continue;
    const own = simplified(value);
    const both = [own["firstname"], own["lastname"]].map(textOf).filter((part) => part !== null);
    const called = both.length > 0 ? both.join(" ") : firstText([own["name"], own["fullname"]]);
    const parts = [called, textOf(own["email"]), firstText([own["phonenumber"], own["phone"]])];
    const said = parts.filter((part) => part !== null).join(", ");
    if (said !== "") return said;
  }
  return null;
}

function firstText(values: readonly unknown[]): string | null {
  for (const value of values) {
    const text = textOf(value);
    if (text !== null) return text;
  }
  return null;
}

function textOf(value: unknown): string | null {
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  return typeof value === "string" ? line(value) : null;
}

const longest = 500;

/** Normalizes a text to one line that every supported database can store; null when it is empty. */
function line(text: string): string | null {
  const whole = text
    .slice(0, 20 * longest)
    .toWellFormed()
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim();
  if (whole === "") return null;
  return whole.length <= longest ? whole : `${whole.slice(0, longest - 3).toWellFormed()}...`;
}

/** True when the request has all three headers of a Standard Webhooks signature. Does not verify the signature. */
export const isSigned = (headers: Headers): boolean =>
  ["webhook-id", "webhook-timestamp", "webhook-signature"].every((name) => headers.has(name));

/** True when one of the signatures matches one of the secrets (`whsec_...`) and the timestamp is at
 *  most `toleranceMs` milliseconds away. */
export function isSignedBy(
  secrets: readonly string[],
  headers: Headers,
  body: Uint8Array,
  now: number,
  toleranceMs: number,
): boolean {
  const id = headers.get("webhook-id") ?? "";
  const seconds = headers.get("webhook-timestamp") ?? "";
  if (!/^\d{1,12}$/.test(seconds) || Math.abs(now - Number(seconds) * 1000) > toleranceMs) return false;
  const given = (headers.get("webhook-signature") ?? "").split(" ").slice(0, 16);
  const wanted = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const mac = createHmac("sha256", key).update(`${id}.${seconds}.`).update(body);
    return `v1,${mac.digest("base64")}`;
  });
  return given.some((one) => wanted.some((right) => sameText(right, one)));
}

export interface BoundConversation {
  readonly id: string;
  readonly channel: string;
  readonly agent: string;
}

export interface StoredDelivery {
  readonly row: PlatformWebhookRow;
  readonly payload: PayloadIn;
}

export interface DeliveryPlan {
  readonly triggers: readonly EscalationTrigger[];
  /** Conversations to poll now. */
  readonly polls: readonly BoundConversation[];
  readonly ended: readonly { readonly row: PlatformWebhookRow; readonly state: "done" | "lost" }[];
  readonly postponed: readonly { readonly row: PlatformWebhookRow; readonly ms: number }[];
}

/** Plans the effects of deliveries. `bound`: our conversations by the platform's id. `isTopic`: the policy has
 *  escalations of the platform. */
export function planDeliveries(
  deliveries: readonly StoredDelivery[],
  bound: ReadonlyMap<string, BoundConversation>,
  isTopic: boolean,
  runtimes: ChannelRuntimes,
  { strangerEscalation, strangerMessage, retry, retryLongest }: Timing["platformWebhook"],
): DeliveryPlan {
  const triggers: EscalationTrigger[] = [];
  const polls = new Map<string, BoundConversation>();
  const ended: DeliveryPlan["ended"][number][] = [];
  const postponed: DeliveryPlan["postponed"][number][] = [];
  for (const { row, payload } of deliveries) {
    const escalates = row.kind === "escalation";
    const { topic } = payload;
    const trigger = { key: keyOf(row), source: "webhook", cause: "topic", topic } as const;
    const known = bound.get(payload.conversation ?? "");
    if (known !== undefined) {
      const { id: conversation, channel, agent } = known;
      const reason = payload.reason ?? "the platform has escalated the conversation";
      if (escalates && isTopic) triggers.push({ ...trigger, channel, agent, conversation, reason });
      polls.set(conversation, known);
      ended.push({ row, state: "done" });
      continue;
    }
    // The request that opens the conversation may still be in progress.
    if (payload.conversation !== null && row.age < (escalates ? strangerEscalation : strangerMessage)) {
      postponed.push({ row, ms: Math.min(retry * 2 ** Math.min(row.attempts, 10), retryLongest) });
      continue;
    }
    // The agent has conversations outside this daemon, such as a chat on a website. Their messages are ignored.
    ended.push({ row, state: escalates ? "lost" : "done" });
    if (!escalates || !isTopic) continue;
    const { agent } = row;
    const runtime = [...runtimes.values()].find((one) => one.agent === agent && one.traits.platform !== null);
    triggers.push({
      ...trigger,
      channel: runtime?.channel ?? agent,
      agent,
      conversation: null,
      reason: lostReason(payload),
      about: aboutAgent(agent, payload.conversation ?? row.id),
    });
  }
  return { triggers, polls: [...polls.values()], ended, postponed };
}

/** A delivery identified only by its hash may occur again as a new one, so its key includes the time of receipt. */
const keyOf = ({ agent, id, received_at }: PlatformWebhookRow): string =>
  id.startsWith("sha256:") ? `webhook:${agent}:${id}:${received_at}` : `webhook:${agent}:${id}`;

/** Contains every field of the payload, because the responder has no other information. */
function lostReason({ conversation, reason, person, message }: PayloadIn): string {
  const which = conversation === null ? "a conversation it does not name" : `conversation ${conversation}`;
  const parts = [
    `the platform has escalated ${which}, which is not known here`,
    ...(reason === null ? [] : [`reason: ${reason}`]),
    ...(person === null ? [] : [`person: ${person}`]),
    ...(message === null ? [] : [`message: ${message}`]),
  ];
  return parts.join("; ");
}
