// What a mail in the mailbox becomes: one message, or one delivery event for each recipient a bounce is about.

import { createHash } from "node:crypto";
import {
  externalId,
  type InboundEvent,
  type MessageEvent,
  type Party,
  type Refusal,
  threadToken,
} from "bridgehead/contract";
import type { Arrival } from "./arrival.ts";
import { attachmentsOf, keptOf } from "./attachments.ts";
import type { EmailConfig } from "./config.ts";
import { type Identity, surrogateId } from "./identity.ts";
import type { Envelope } from "./imap/fetch.ts";
import { classify } from "./parse/index.ts";
import type { Mail, Mailbox } from "./parse/mail.ts";
import type { SenderAuth } from "./parse/types.ts";
import { deliveries } from "./receipts.ts";

export interface Reading {
  readonly config: EmailConfig;
  readonly self: Identity;
}

/** Events, or the wish to look at the mail once more because the sender could not be checked just now. */
export type Understanding =
  | { readonly kind: "events"; readonly events: readonly InboundEvent[] }
  | { readonly kind: "again"; readonly otherwise: Refusal };

const loopHeader = "x-bridgehead-hops";
const referenceLimit = 20;

/** A mail that was parsed. Pure. */
export function understand(
  reading: Reading,
  arrival: Arrival,
  mail: Mail,
  auth: SenderAuth | null,
  raw: Uint8Array,
): Understanding {
  const { config, self } = reading;
  const finding = classify(mail, {
    addresses: self.addresses,
    isOurs: (messageId) => self.keyOf(messageId) !== null,
    robots: config.robots,
    bccAllowed: config.bcc === "answer",
  });
  if (finding.kind === "bounce") {
    return { kind: "events", events: deliveries(self, arrival, mail, finding, raw) };
  }
  const checked = finding.kind === "refused" ? null : checkSender(config, auth);
  if (checked === "again") {
    const reason = "the sender's domain could not be asked";
    return { kind: "again", otherwise: { code: "unauthenticated-temporary", reason } };
  }
  const refusal = finding.kind === "refused" ? { code: finding.code, reason: finding.reason } : checked;
  return { kind: "events", events: [messageOf(reading, arrival, mail, auth, raw, refusal)] };
}

/** A mail that was not read: too large, not to be had, or not parsable. `raw` is kept when it is there and small. */
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
    from: envelope?.from ? partyOf(envelope.from) : { address: "unknown@invalid" },
    to: [],
    thread: { answers: envelope?.inReplyTo ? [externalId(envelope.inReplyTo)] : [] },
    sentAt: new Date(arrival.listed.arrived ?? arrival.now),
    ...(envelope?.subject ? { subject: envelope.subject } : {}),
    text: "",
    refusal,
    ...(raw !== null && raw.length <= 1_000_000 ? { raw } : {}),
  };
}

function messageOf(
  { config, self }: Reading,
  arrival: Arrival,
  mail: Mail,
  auth: SenderAuth | null,
  raw: Uint8Array,
  refusal: Refusal | null,
): MessageEvent {
  const from = mail.from[0] ?? mail.sender ?? { address: "unknown@invalid", name: "" };
  const replyTo = mail.replyTo.find((one) => !self.isOwn(one.address) && one.address !== from.address);
  const others = [...mail.to, ...mail.cc].filter(
    (one) => !self.isOwn(one.address) && one.address !== from.address && one.address !== replyTo?.address,
  );
  const attachments = attachmentsOf(config, mail);
  const hops = hopsOf(mail);
  return {
    kind: "message",
    id: arrival.id,
    fingerprint: `${mail.messageId ?? ""}+${mail.digest}`,
    cited: mail.messageId === null ? surrogateId(mail.digest) : externalId(mail.messageId),
    from: partyOf(from),
    to: mail.to.map(partyOf),
    ...(replyTo ? { replyTo: partyOf(replyTo) } : {}),
    ...(others.length > 0 ? { cc: unique(others).map(partyOf) } : {}),
    thread: threadOf(self, mail),
    sentAt: new Date(arrival.listed.arrived ?? mail.date ?? arrival.now),
    ...(mail.subject ? { subject: mail.subject } : {}),
    text: mail.text,
    ...(mail.fullText === mail.text ? {} : { fullText: mail.fullText }),
    ...(mail.wordless ? { wordless: true } : {}),
    ...(attachments.length > 0 ? { attachments } : {}),
    ...(refusal ? { refusal } : {}),
    ...(hops > 0 ? { hops } : {}),
    ...notesOf(config, mail, auth),
    ...(config.sender_auth.mode === "off"
      ? {}
      : { sender: auth?.verdict === "pass" ? ("verified" as const) : ("unverified" as const) }),
    raw,
  };
}

function threadOf(self: Identity, mail: Mail): MessageEvent["thread"] {
  const nearestFirst = [...mail.inReplyTo, ...[...mail.references].reverse()];
  const answers = [...new Set(nearestFirst)].slice(0, referenceLimit).map(externalId);
  const ours = answers.flatMap((id) => {
    const key = self.keyOf(id);
    return key === null ? [] : [{ id, key }];
  });
  return { answers, tokens: tokensOf(self, mail), ...(ours.length > 0 ? { ours } : {}) };
}

function tokensOf(self: Identity, mail: Mail) {
  const addresses = [...mail.to, ...mail.cc].map((one) => one.address).concat(mail.deliveredTo);
  const fromAddresses = addresses.flatMap((address) => self.tokenOf(address) ?? []);
  return [...new Set([...fromAddresses, ...mail.markers.map(threadToken)])];
}

function hopsOf(mail: Mail): number {
  const value = mail.headers.find((header) => header.name === loopHeader)?.value.trim() ?? "";
  return /^\d{1,3}$/.test(value) ? Number(value) : 0;
}

function checkSender(config: EmailConfig, auth: SenderAuth | null): Refusal | "again" | null {
  if (config.sender_auth.mode !== "require" || auth?.verdict === "pass") return null;
  if (auth?.verdict === "temperror") return "again";
  return { code: "unauthenticated", reason: auth?.detail ?? "the sender was not checked" };
}

function notesOf(config: EmailConfig, mail: Mail, auth: SenderAuth | null) {
  const notes: Record<string, string> = {};
  if (config.sender_auth.mode !== "off")
    notes["sender"] = auth?.verdict === "pass" ? "verified" : "unverified";
  // What is kept is named with the message; of the rest the agent learns here that it exists.
  const kept = keptOf(config, mail);
  const lost = mail.attachments.filter((file) => !file.inline && !kept.includes(file));
  if (config.attachments.name_to_agent && lost.length > 0) {
    const named = lost
      .slice(0, 30)
      .map((file) => `${file.name} (${file.mediaType}, ${file.bytes.length} bytes)`);
    notes["attachments_not_kept"] = named.join(", ");
  }
  if (mail.forwarded?.from) notes["forwarded_from"] = mail.forwarded.from.address;
  return Object.keys(notes).length > 0 ? { notes } : {};
}

function partyOf(mailbox: Mailbox): Party {
  return mailbox.name ? { address: mailbox.address, name: mailbox.name } : { address: mailbox.address };
}

function unique(mailboxes: readonly Mailbox[]): Mailbox[] {
  return [...new Map(mailboxes.map((one) => [one.address, one])).values()];
}
