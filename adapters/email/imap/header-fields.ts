// Requests for single header fields of messages that are not downloaded, and the events of such messages.

import { createHash } from "node:crypto";
import { externalId, type MessageEvent, type Refusal } from "bridgehead/contract";
import type { FetchMessageObject, ImapFlow } from "imapflow";
import type { Arrival } from "../events.ts";
import { decodeText } from "../parse/charsets.ts";
import { mailboxesOf, messageIdOf, textOf } from "../parse/headers.ts";
import { openMailbox, rowsOf, uidSet } from "./mailbox.ts";
import { nullIfRejected } from "./sources.ts";

/** The fields that replace the header of a message whose bytes are not read. */
export interface Envelope {
  readonly messageId: string | null;
  /** With angle brackets, or null. */
  readonly inReplyTo: string | null;
  readonly from: { readonly address: string; readonly name: string } | null;
  readonly subject: string;
  /** True when the header marks an automatic message (RFC 3834) or a bounce. */
  readonly automatic: boolean;
}

const envelopeFields = ["from", "subject", "message-id", "in-reply-to", "auto-submitted", "return-path"];

/** Returns sender, subject and id of messages that are not read. Fetches header fields instead of
 *  ENVELOPE: its one line contains every recipient, and a line above the limit closes the connection. */
export async function envelopes(client: ImapFlow, uids: readonly number[]): Promise<Map<number, Envelope>> {
  if (uids.length === 0 || openMailbox(client).exists === 0) return new Map();
  const rows = await rowsOf(client, uidSet(uids), { uid: true, headers: envelopeFields }).catch(nullIfRejected);
  if (rows !== null) return new Map(rows.map((row) => [row.uid, envelopeOf(fieldsOf(row))]));
  // The server cannot return the header of one of them.
  const found = new Map<number, Envelope>();
  if (uids.length > 1)
    for (const uid of uids) for (const [at, head] of await envelopes(client, [uid])) found.set(at, head);
  return found;
}

function envelopeOf(fields: ReadonlyMap<string, string>): Envelope {
  const value = (name: string) => fields.get(name) ?? "";
  return {
    messageId: messageIdOf(value("message-id")),
    inReplyTo: messageIdOf(value("in-reply-to")),
    from: mailboxesOf([{ name: "from", value: value("from").slice(0, 2000) }], "from")[0] ?? null,
    subject: textOf(value("subject")),
    automatic:
      !/^(?:no\b|$)/i.test(value("auto-submitted")) ||
      /^<\s{0,5}(?:mailer-daemon)?\s{0,5}>$/i.test(value("return-path")),
  };
}

/** Returns these header fields of the messages, unfolded, by lower-case name. The first field of each name counts. */
export async function headerFields(
  client: ImapFlow,
  uids: readonly number[],
  names: readonly string[],
): Promise<ReadonlyMap<string, string>[]> {
  if (uids.length === 0 || openMailbox(client).exists === 0) return [];
  const rows = await rowsOf(client, uidSet(uids), { uid: true, headers: [...names] });
  return rows.map(fieldsOf);
}

function fieldsOf(row: FetchMessageObject): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  const text = decodeText(row.headers ?? Buffer.alloc(0), null);
  for (const line of text.replace(/\r?\n[ \t]/g, " ").split(/\r?\n/)) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon)).trim().toLowerCase();
    if (name !== "" && !fields.has(name)) fields.set(name, line.slice(colon + 1).trim());
  }
  return fields;
}

/** Returns the event of a message that was not read: too large, not available, or not parsable. `raw` is
 *  kept when it is present and small. */
export function unread(
  arrival: Arrival,
  envelope: Envelope | null,
  refusal: Refusal,
  raw: Uint8Array | null,
): MessageEvent {
  const print = raw
    ? createHash("sha256").update(raw).digest("hex")
    : `${arrival.listed.size}+${arrival.listed.arrived}`;
  return {
    kind: "message",
    id: arrival.id,
    fingerprint: `${envelope?.messageId ?? ""}+${print}`,
    ...(envelope?.messageId ? { cited: externalId(envelope.messageId) } : {}),
    from: envelope?.from
      ? { address: envelope.from.address, ...(envelope.from.name && { name: envelope.from.name }) }
      : { address: "unknown@invalid" },
    to: [],
    thread: { answers: envelope?.inReplyTo ? [externalId(envelope.inReplyTo)] : [] },
    sentAt: new Date(arrival.listed.arrived ?? arrival.now),
    ...(envelope?.subject ? { subject: envelope.subject } : {}),
    text: "",
    refusal,
    ...(raw !== null && raw.length <= 1_000_000 ? { raw } : {}),
  };
}
