// Checks the fields that the core relies on, of events, outcomes, findings and statuses. Adapters in JavaScript, and those
// that pass on what a provider sent, may leave one out or give it another type.

import type { Consent, DeliveryEvent, InboundEvent, SessionEvent } from "./events.ts";
import type { ChannelStatus, DeferralCause, Finding, Scope, SendOutcome } from "./outcomes.ts";

/** A field, and what it must be. It has no value: that may be personal data. */
export interface WrongField {
  /** `attachments[0].mediaType` */
  readonly field: string;
  /** The type of the given value. */
  readonly given: string;
  readonly expected: string;
}

type CheckedFields = Readonly<Record<string, unknown>>;
/** Whether a value is right, and what is expected otherwise. */
type FieldForm = readonly [isRight: (value: unknown) => boolean, expected: string];

// Arrow functions: this runs for every message.
const isText = (value: unknown): value is string => typeof value === "string";
const isObject = (value: unknown): value is CheckedFields => typeof value === "object" && value !== null;
const isAbsent = (value: unknown): boolean => value === undefined || value === null;
const optional = ([isRight, expected]: FieldForm): FieldForm => [
  (value) => value === undefined || isRight(value),
  expected,
];
const absentOr = ([isRight, expected]: FieldForm): FieldForm => [
  (value) => isAbsent(value) || isRight(value),
  expected,
];

const text: FieldForm = [isText, "a string"];
const id: FieldForm = [(value) => isText(value) && value !== "", "a string that is not empty"];
const object: FieldForm = [isObject, "an object"];
const list: FieldForm = [Array.isArray, "an array"];
const bytes: FieldForm = [(value) => value instanceof Uint8Array, "a Uint8Array"];
const date: FieldForm = [(value) => value instanceof Date && !Number.isNaN(value.getTime()), "a valid Date"];
const oneOf = (values: readonly string[]): FieldForm => [
  (value) => isText(value) && values.includes(value),
  `one of ${values.join(", ")}`,
];
const kind = oneOf(["message", "delivery", "session"] satisfies InboundEvent["kind"][]);
const received = oneOf(["accepted", "delivered", "read", "failed"] satisfies DeliveryEvent["state"][]);
const changed = oneOf(["opened", "interrupted", "transferring", "lost", "closed"] satisfies SessionEvent["state"][]);

const ofEvents = { kind, id, fingerprint: optional(text), raw: absentOr(bytes) };
const ofMessages = { thread: object, sentAt: date, cited: optional(text), subject: absentOr(text) };
/** What is stored as it is, and read when the message is routed. */
const laterOfMessages = {
  text,
  to: list,
  via: absentOr(text),
  hops: absentOr([Number.isInteger, "a whole number"]),
  notes: absentOr(object),
};
const keyword = oneOf(["stop", "start", "help"] satisfies Consent["word"][]);

/** Returns the first wrong field of an event; null when it has the form that `InboundEvent` declares. The conformance suite
 *  reports it. */
export const wrongField = (event: unknown): WrongField | null =>
  unstorableField(event) ?? unreadableField(event as CheckedFields);

/** Returns the first wrong field without which an event cannot be stored; null when it can. The core rejects such an event.
 *  One with another wrong field is stored, and fails alone. */
export const unstorableField = (event: unknown): WrongField | null => {
  if (!isObject(event)) return wrong("event", event, object);
  const common = first(event, ofEvents);
  if (common !== null || event["kind"] === "delivery") return common;
  const sender = party(event["from"], "from");
  if (sender !== null || event["kind"] === "session") return sender;
  return (
    first(event, ofMessages) ??
    threadField(event["thread"] as CheckedFields) ??
    part(event["forHumans"], "forHumans", { subject: text }) ??
    each(event["attachments"], "attachments", attachment)
  );
};

const unreadableField = (event: CheckedFields): WrongField | null => {
  if (event["kind"] === "delivery") return first(event, { about: object, state: received });
  if (event["kind"] === "session") return first(event, { session: id, state: changed });
  const { to, cc, replyTo } = event;
  return (
    first(event, laterOfMessages) ??
    part(event["refusal"], "refusal", { code: text, reason: text }) ??
    part(event["handledBefore"], "handledBefore", { reason: text }) ??
    part(event["consent"], "consent", { word: keyword, answer: optional(text) }) ??
    each(to, "to", party) ??
    each(cc, "cc", party) ??
    (isAbsent(replyTo) ? null : party(replyTo, "replyTo"))
  );
};

const threadField = (thread: CheckedFields): WrongField | null =>
  "session" in thread
    ? first(thread, { session: id }, "thread.")
    : (first(thread, { answers: list }, "thread.") ?? each(thread["answers"], "thread.answers", string));

const string = (value: unknown, field: string): WrongField | null => (isText(value) ? null : wrong(field, value, text));

const party = (value: unknown, field: string): WrongField | null =>
  isObject(value) ? first(value, { address: text }, `${field}.`) : wrong(field, value, object);

/** Checks an object that may be absent. */
const part = (value: unknown, field: string, forms: Readonly<Record<string, FieldForm>>): WrongField | null => {
  if (isAbsent(value)) return null;
  return isObject(value) ? first(value, forms, `${field}.`) : wrong(field, value, object);
};

const attachment = (value: unknown, field: string): WrongField | null => {
  if (!isObject(value)) return wrong(field, value, object);
  const named = first(value, { name: text, mediaType: text }, `${field}.`);
  if (named !== null || "ref" in value) return named;
  if ("missing" in value) return first(value, { missing: text }, `${field}.`);
  return first(value, { bytes: [bytes[0], "a Uint8Array, or ref or missing in its place"] }, `${field}.`);
};

/** Checks the elements of a list, which may be absent. */
const each = (
  values: unknown,
  field: string,
  check: (value: unknown, field: string) => WrongField | null,
): WrongField | null => {
  if (isAbsent(values)) return null;
  if (!Array.isArray(values)) return wrong(field, values, list);
  for (let at = 0; at < values.length; at += 1) {
    const found = check(values[at], `${field}[${at}]`);
    if (found !== null) return found;
  }
  return null;
};

const first = (values: CheckedFields, forms: Readonly<Record<string, FieldForm>>, before = ""): WrongField | null => {
  for (const [field, form] of Object.entries(forms))
    if (!form[0](values[field])) return wrong(`${before}${field}`, values[field], form);
  return null;
};

const wrong = (field: string, value: unknown, [, expected]: FieldForm): WrongField => ({
  field,
  given: typeof value === "number" && !Number.isFinite(value) ? String(value) : typeText(value),
  expected,
});

const typeText = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "an array" : value === "" ? "an empty string" : typeof value;

const delay: FieldForm = [
  (value) => typeof value === "number" && value >= 0 && value < Number.POSITIVE_INFINITY,
  "a number of milliseconds that is finite and not negative",
];
const scope = oneOf(["draft", "recipient", "sender", "channel"] satisfies Scope[]);
const cause = oneOf(["unreachable", "login", "rate", "set-up"] satisfies DeferralCause[]);
const texts: FieldForm = [(value) => Array.isArray(value) && value.every(isText), "an array of strings"];

/** Returns a check of objects of several kinds: `forms` has the fields of each. */
const ofKind =
  <Kind extends string>(tag: "kind" | "state", forms: Readonly<Record<Kind, Readonly<Record<string, FieldForm>>>>) =>
  (given: unknown): WrongField | null => {
    if (!isObject(given)) return wrong("it", given, object);
    const kind = given[tag];
    if (isText(kind) && Object.hasOwn(forms, kind)) return first(given, forms[kind as Kind]);
    return wrong(tag, kind, oneOf(Object.keys(forms)));
  };

/** Returns the first wrong field of what `send` has returned; null when it is an outcome. */
export const wrongOutcome = ofKind<SendOutcome["kind"]>("kind", {
  sent: { id: text, also: optional(texts), detail: optional(text) },
  refused: { code: text, reason: text, scope: optional(scope) },
  deferred: { reason: text, retryAfterMs: optional(delay), scope: optional(scope), cause: optional(cause) },
  unknown: { reason: text },
});

/** Returns the first wrong field of what `reconcile` has returned; null when it is a finding. */
export const wrongFinding = ofKind<Finding["kind"]>("kind", {
  sent: { id: text },
  "not-sent": {},
  unsure: { lookAgainAfterMs: optional(delay) },
});

/** Returns the first wrong field of a status, reported or of `probe`; null when it is one. */
export const wrongStatus = ofKind<ChannelStatus["state"]>("state", {
  connecting: {},
  ready: {},
  degraded: { code: text, reason: text },
  unauthorized: { code: text, reason: text },
});

/** Returns a wrong field as text: `retryAfterMs as NaN, expected a number ...`. */
export const wrongFieldText = ({ field, given, expected }: WrongField): string =>
  `${field} as ${given}, expected ${expected}`;
