// Checks the fields of an event that the core relies on. Adapters in JavaScript, and those that pass on what a provider
// sent, may leave one out or give it another type.

import type { DeliveryEvent, InboundEvent, SessionEvent } from "./events.ts";

/** A field of an event, and what it must be. It has no value: that may be personal data. */
export interface WrongField {
  /** `attachments[0].mediaType` */
  readonly field: string;
  /** The type of the given value. */
  readonly given: string;
  readonly expected: string;
}

type EventFields = Readonly<Record<string, unknown>>;
/** Whether a value is right, and what is expected otherwise. */
type FieldForm = readonly [isRight: (value: unknown) => boolean, expected: string];

// Arrow functions: this runs for every message.
const isText = (value: unknown): value is string => typeof value === "string";
const isObject = (value: unknown): value is EventFields => typeof value === "object" && value !== null;
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

/** Returns the first wrong field of an event; null when it has the form that `InboundEvent` declares. The conformance suite
 *  reports it. */
export const wrongField = (event: unknown): WrongField | null =>
  unstorableField(event) ?? unreadableField(event as EventFields);

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
    threadField(event["thread"] as EventFields) ??
    each(event["attachments"], "attachments", attachment)
  );
};

const unreadableField = (event: EventFields): WrongField | null => {
  if (event["kind"] === "delivery") return first(event, { about: object, state: received });
  if (event["kind"] === "session") return first(event, { session: id, state: changed });
  const { to, cc, replyTo } = event;
  return (
    first(event, { text, to: list }) ??
    each(to, "to", party) ??
    each(cc, "cc", party) ??
    (isAbsent(replyTo) ? null : party(replyTo, "replyTo"))
  );
};

const threadField = (thread: EventFields): WrongField | null =>
  "session" in thread
    ? first(thread, { session: id }, "thread.")
    : (first(thread, { answers: list }, "thread.") ?? each(thread["answers"], "thread.answers", string));

const string = (value: unknown, field: string): WrongField | null => (isText(value) ? null : wrong(field, value, text));

const party = (value: unknown, field: string): WrongField | null =>
  isObject(value) ? first(value, { address: text }, `${field}.`) : wrong(field, value, object);

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

const first = (values: EventFields, forms: Readonly<Record<string, FieldForm>>, before = ""): WrongField | null => {
  for (const [field, form] of Object.entries(forms))
    if (!form[0](values[field])) return wrong(`${before}${field}`, values[field], form);
  return null;
};

const wrong = (field: string, value: unknown, [, expected]: FieldForm): WrongField => ({
  field,
  given: value === null ? "null" : Array.isArray(value) ? "an array" : value === "" ? "an empty string" : typeof value,
  expected,
});
