// What a webhook of the platform says, wherever it says it: the interface names no fields (External API 6). Never throws.

/** Everything is one line of text, cut where it is long. */
export interface PayloadIn {
  readonly conversation: string | null;
  readonly topic: string | null;
  readonly reason: string | null;
  readonly message: string | null;
  /** Who it is about: name, mailbox, number. */
  readonly person: string | null;
}

type Fields = { readonly [name: string]: unknown };

const mostDepth = 8;
const mostObjects = 5000;
/** Of a form: fields, and characters. */
const mostFields = 500;
const mostForm = 200_000;

/** `body`: JSON, a form, or whatever it is: then it is all message. */
export function readPayload(body: string): PayloadIn {
  const root = jsonIn(body) ?? formIn(body);
  if (root === null)
    return { conversation: null, topic: null, reason: null, message: line(body), person: null };
  const objects = objectsIn(root);
  return {
    conversation: firstOf(objects, conversationIn),
    topic: named(objects, ["topic", "escalationtopic"]) ?? named(objects, ["escalation", "category"]),
    reason: named(objects, ["reason", "escalationreason"]) ?? named(objects, ["escalationprompt", "summary"]),
    message: named(objects, ["message", "lastmessage", "usermessage"]) ?? named(objects, ["text", "content"]),
    person: firstOf(objects, personIn),
  };
}

/** Null when it is no JSON, or JSON that says nothing (a number, an empty text). */
function jsonIn(body: string): object | null {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" ? value : null;
  } catch {
    return null; // also what is nested deeper than the parser goes
  }
}

/** A form's fields; those that are JSON themselves (`payload={...}`) are read as such. */
function formIn(body: string): object | null {
  if (!/^[\w.[\]%+-]+=/.test(body.trim())) return null;
  const fields = [...new URLSearchParams(body.trim().slice(0, mostForm))]
    .slice(0, mostFields)
    .map(([name, value]): [string, unknown] => [
      name,
      (/^\s*[[{]/.test(value) ? jsonIn(value) : null) ?? value,
    ]);
  return Object.fromEntries(fields);
}

/** All objects in it, those nearest to the root first: what a message of the transcript says counts less. */
function objectsIn(root: object): readonly Fields[] {
  const found: Fields[] = [];
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

/** `conversation_id`, `conversation-id` and `conversationID` are one name; the first that says something counts. */
function simplified(object: object): Fields {
  const fields = new Map<string, unknown>();
  for (const [name, value] of Object.entries(object)) {
    const simple = name.toLowerCase().replace(/[^a-z0-9]/g, "");
    fields.set(simple, fields.get(simple) ?? value);
  }
  return Object.fromEntries(fields);
}

function firstOf(objects: readonly Fields[], read: (fields: Fields) => string | null): string | null {
  for (const fields of objects) {
    const value = read(fields);
    if (value !== null) return value;
  }
  return null;
}

const named = (objects: readonly Fields[], names: readonly string[]): string | null =>
  firstOf(objects, (fields) => firstText(names.map((name) => fields[name])));

function conversationIn(fields: Fields): string | null {
  const { conversation } = fields;
  const own = typeof conversation === "object" && conversation !== null ? simplified(conversation) : {};
  return firstText([fields["conversationid"], own["id"], own["conversationid"], conversation]);
}

const people = ["user", "customer", "contact", "conversationuser", "person"];

function personIn(fields: Fields): string | null {
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

/** One line that any database takes; null when nothing is left of it. */
function line(text: string): string | null {
  const whole = text
    .slice(0, 20 * longest)
    .toWellFormed()
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim();
  if (whole === "") return null;
  return whole.length <= longest ? whole : `${whole.slice(0, longest - 3).toWellFormed()}...`;
}
