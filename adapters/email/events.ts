// Converts a received message into events: one message event, or one delivery event for each recipient of a
// bounce. Selects the attachments that are stored, that the event lists, and that the author meant to send. Runs in the
// parser's worker thread, where `bridgehead/contract` can be imported for its types only.

import type {
  Attachment,
  ExternalId,
  InboundEvent,
  MessageEvent,
  Party,
  Refusal,
  ThreadToken,
} from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import type { Listed } from "./imap/mailbox.ts";
import { surrogateId } from "./parse/headers.ts";
import { deliveries } from "./parse/machine/bounce.ts";
import { classify, type MachineFinding } from "./parse/machine/classify.ts";
import type { Mail, MailAttachment, Mailbox, SenderAuth } from "./parse/mail.ts";
import { sealedInFiles } from "./parse/mime.ts";
import { type Author, authorOf, type Identity, identity } from "./parties.ts";

/** The keys of the configuration that decide about a message. */
export type EventConfig = Pick<
  EmailConfig,
  "accept_lists" | "attachments" | "bcc" | "contact_forms" | "automatic_senders" | "sender_auth"
>;

export interface EventContext {
  readonly config: EventConfig;
  readonly self: Identity;
}

/** What the events of a message depend on apart from its bytes. Survives a structured clone. */
export interface EventRequest extends Pick<Parsed, "omitted" | "truncated"> {
  readonly config: EventConfig;
  /** Our addresses, the one in From first. */
  readonly addresses: readonly string[];
  readonly arrival: Arrival;
  /** The sender check of a message that the worker does not check. */
  readonly auth: SenderAuth | null;
  /** True when the events store the bytes of the message. */
  readonly whole: boolean;
}

/** Events, or a request to retry the message because the sender could not be checked now. */
export type Understanding =
  | { readonly kind: "events"; readonly events: readonly InboundEvent[] }
  | { readonly kind: "again"; readonly otherwise: Refusal };

const loopHeader = "x-bridgehead-hops";
const referenceLimit = 20;

/** A message as the parser and the sender check returned it. */
export interface Parsed {
  readonly mail: Mail;
  /** Null when `sender_auth` is off. */
  readonly auth: SenderAuth | null;
  /** The message as it arrived; null when only a part of it was downloaded. */
  readonly raw: Uint8Array | null;
  /** Attachments that were not downloaded because the message is larger than `max_size`. */
  readonly omitted: readonly Omitted[];
  /** True when only the beginning of the text was downloaded. */
  readonly truncated: boolean;
}

/** Stands for the bytes of the message, which are not sent back to the main thread. */
const bytesElsewhere = new Uint8Array();

/** Handles a request in the worker thread. `auth` is the result of the worker's own sender check. */
export function eventsOf(mail: Mail, auth: SenderAuth | null, request: EventRequest): Understanding {
  const { config, addresses, arrival, omitted, truncated, whole } = request;
  const [address = "", ...aliases] = addresses;
  return understand({ config, self: identity(address, aliases) }, arrival, {
    mail,
    auth: auth ?? request.auth,
    raw: whole ? bytesElsewhere : null,
    omitted,
    truncated,
  });
}

/** Converts a parsed message into events. Pure. */
export function understand(reading: EventContext, arrival: Arrival, parsed: Parsed): Understanding {
  const { config, self } = reading;
  const { mail, auth, raw } = parsed;
  const author = authorOf(config, self, mail, auth);
  const finding = classify(
    parsed.omitted.length === 0 ? mail : { ...mail, sealed: mail.sealed ?? sealedInFiles(parsed.omitted) },
    {
      addresses: self.addresses,
      isOurs: (messageId) => self.keyOf(messageId) !== null,
      automaticSenders: config.automatic_senders,
      lists: config.accept_lists,
      bccAllowed: config.bcc === "answer",
      ...(author.via === "direct"
        ? {}
        : { rewritten: { via: author.via, author: author.author?.address ?? null } }),
    },
  );
  if (finding.kind === "bounce") {
    return { kind: "events", events: deliveries(self, arrival, mail, finding, raw) };
  }
  const checked = finding.kind === "refused" ? null : checkSender(config, auth);
  if (checked === "again") {
    const reason = "the sender's domain could not be asked";
    return { kind: "again", otherwise: { code: "unauthenticated-temporary", reason } };
  }
  return {
    kind: "events",
    events: [messageOf(reading, arrival, parsed, author, refusalOf(finding, checked))],
  };
}

/** Returns the first refusal that applies: classification, then the sender check, then content that a
 *  human has to read. */
function refusalOf(
  finding: Exclude<MachineFinding, { kind: "bounce" }>,
  checked: Refusal | null,
): Refusal | null {
  if (finding.kind === "person") return checked;
  const { code, reason } = finding;
  if (finding.kind === "held") return checked ?? { code, reason, hold: true };
  return { code, reason };
}

function messageOf(
  { config, self }: EventContext,
  arrival: Arrival,
  { mail, raw, omitted, truncated }: Parsed,
  { author, replyTo, others, verified }: Author,
  refusal: Refusal | null,
): MessageEvent {
  const from = author ?? mail.from[0] ?? { address: "unknown@invalid", name: "" };
  const attachments = attachmentsOf(config, mail, omitted);
  const hops = hopsOf(mail);
  const sender = verified ? ("verified" as const) : ("unverified" as const);
  // The refusal code is part of the fingerprint. Otherwise a copy refused for its route (a list, Bcc) would
  // deduplicate the copy that was delivered directly. The author is part of it as well. Any recipient of
  // the message can send a copy before the original arrives here, and must not turn the original into a
  // duplicate.
  const route = refusal === null || refusal.hold ? "" : `/${refusal.code}`;
  return {
    kind: "message",
    id: arrival.id,
    fingerprint: `${mail.messageId ?? ""}+${mail.digest}+${from.address}${route}`,
    cited: mail.messageId === null ? surrogateId(mail.digest) : (mail.messageId as ExternalId),
    from: partyOf(from),
    to: mail.to.map(partyOf),
    ...(replyTo ? { replyTo: partyOf(replyTo) } : {}),
    ...(others.length > 0 ? { cc: others.map(partyOf) } : {}),
    thread: threadOf(self, mail),
    sentAt: new Date(arrival.listed.arrived ?? mail.date ?? arrival.now),
    ...(mail.subject ? { subject: mail.subject } : {}),
    // Ciphertext is not text. A message with winmail.dat still has readable text.
    text: refusal?.hold && refusal.code !== "winmail" ? "" : mail.text,
    ...(mail.fullText === mail.text ? {} : { fullText: mail.fullText }),
    ...(mail.wordless ? { wordless: true } : {}),
    ...(attachments.length > 0 ? { attachments } : {}),
    ...(refusal ? { refusal } : {}),
    ...(hops > 0 ? { hops } : {}),
    ...notesOf(config, mail, { omitted, truncated }, sender),
    ...(config.sender_auth.mode === "off" ? {} : { sender }),
    ...(raw === null ? {} : { raw }),
  };
}

function threadOf(self: Identity, mail: Mail): MessageEvent["thread"] {
  const nearestFirst = [...mail.inReplyTo, ...[...mail.references].reverse()];
  const answers = [...new Set(nearestFirst)].slice(0, referenceLimit) as ExternalId[];
  const ours = answers.flatMap((id) => {
    const key = self.keyOf(id);
    return key === null ? [] : [{ id, key }];
  });
  return { answers, tokens: tokensOf(self, mail), ...(ours.length > 0 ? { ours } : {}) };
}

function tokensOf(self: Identity, mail: Mail) {
  const addresses = [...mail.to, ...mail.cc].map((one) => one.address).concat(mail.deliveredTo);
  const fromAddresses = addresses.flatMap((address) => self.tokenOf(address) ?? []);
  return [...new Set([...fromAddresses, ...(mail.markers as readonly ThreadToken[])])];
}

function hopsOf(mail: Mail): number {
  const value = mail.headers.find((header) => header.name === loopHeader)?.value.trim() ?? "";
  return /^\d{1,3}$/.test(value) ? Number(value) : 0;
}

function checkSender(config: EventConfig, auth: SenderAuth | null): Refusal | "again" | null {
  if (config.sender_auth.mode !== "require" || auth?.verdict === "pass") return null;
  if (auth?.verdict === "temperror") return "again";
  return { code: "unauthenticated", reason: auth?.detail ?? "the sender was not checked" };
}

function notesOf(
  config: EventConfig,
  mail: Mail,
  { omitted, truncated }: Pick<Parsed, "omitted" | "truncated">,
  sender: "verified" | "unverified",
) {
  const notes: Record<string, string> = {};
  if (config.sender_auth.mode !== "off") notes["sender"] = sender;
  if (config.attachments.name_to_agent) {
    // Stored attachments are listed with the message; the others are listed only here.
    const kept = keptOf(config, mail);
    const lost = mail.attachments.filter((file) => !file.inline && !kept.includes(file));
    if (lost.length > 0)
      notes["attachments_not_kept"] = listed(lost.map((file) => ({ ...file, size: file.bytes.length })));
    if (omitted.length > 0) notes["attachments_too_large"] = listed(omitted);
  }
  if (truncated)
    notes["text_truncated"] = "the message is too large, and only the beginning of its text was read";
  if (mail.forwarded?.from) notes["forwarded_from"] = mail.forwarded.from.address;
  return Object.keys(notes).length > 0 ? { notes } : {};
}

/** `big.pdf (application/pdf, 20000 bytes), ...`; at most 30 files. */
const listed = (files: readonly Omitted[]): string =>
  files
    .slice(0, 30)
    .map((file) => `${file.name} (${file.mediaType}, ${file.size} bytes)`)
    .join(", ");

function partyOf(mailbox: Mailbox): Party {
  return mailbox.name ? { address: mailbox.address, name: mailbox.name } : { address: mailbox.address };
}

/** At most this many attachments that are not stored are listed. */
const mostListed = 30;

/** Media types of parts that mail clients and gateways add on their own. */
const addedTypes =
  /^(?:text\/(?:calendar|vcard|x-vcard|directory|rfc822-headers)|application\/(?:ics|pgp-(?:signature|keys)|(?:x-)?pkcs7-signature))$/i;
const addedNames = /\.(?:ics|vcf|p7s)$/i;
/** Containers that may hold all text and attachments and that we cannot open: encrypted, or packed by
 *  Outlook. */
const sealedTypes = /^application\/(?:ms-tnef|pgp-encrypted|(?:x-)?pkcs7-mime)$/i;
const sealedNames = /^winmail\.dat$|\.p7m$/i;

/** An attachment of an oversized message that was not downloaded. `size` is in bytes, as the IMAP server reports it. */
export interface Omitted {
  readonly name: string;
  readonly mediaType: string;
  readonly size: number;
}

/** Returns the attachments whose bytes are stored, within the limits of the configuration. */
function keptOf({ attachments: limits }: EventConfig, mail: Mail): readonly MailAttachment[] {
  return mail.attachments.filter((file) => file.bytes.length <= limits.max_bytes).slice(0, limits.max_count);
}

/** Returns the attachments of the event. Attachments that are not stored or cannot be opened are listed
 *  when the author meant to send them. */
function attachmentsOf(
  config: EventConfig,
  mail: Mail,
  omitted: readonly Omitted[] = [],
): readonly Attachment[] {
  const kept = keptOf(config, mail);
  // A part next to `application/pgp-encrypted` is the encrypted message.
  const encrypted = mail.attachments.some(({ mediaType }) => /^application\/pgp-encrypted$/i.test(mediaType));
  const isMeant = (file: MailAttachment) =>
    !file.inline && !encrypted && !is(file, addedTypes, addedNames) && !isSealed(file);
  const named = ({ inline }: MailAttachment) => config.attachments.name_to_agent && !inline;
  const lost = mail.attachments.filter((file) => isMeant(file) && !kept.includes(file));
  return [
    ...kept.map((file) => {
      const { name, mediaType, bytes } = file;
      return { name, mediaType, bytes, named: named(file), meant: isMeant(file) };
    }),
    ...lost.slice(0, mostListed).map((file) => unsent(file, reasonOf(config, file.bytes.length))),
    ...mail.attachments
      .filter(isSealed)
      .slice(0, 1)
      .map((file) => unsent(file, "what is in it cannot be read")),
    ...omitted.slice(0, mostListed).map(({ name, mediaType, size }) => ({
      name,
      mediaType,
      size,
      named: false,
      meant: true,
      missing: "the message is too large to be downloaded as a whole",
    })),
  ];
}

const unsent = ({ name, mediaType, bytes }: MailAttachment, missing: string): Attachment => ({
  name,
  mediaType,
  size: bytes.length,
  named: false,
  meant: true,
  missing,
});

const isSealed = (file: MailAttachment): boolean => is(file, sealedTypes, sealedNames);

/** Compares the media type; compares the name when the type is generic. */
const is = ({ mediaType, name }: MailAttachment, types: RegExp, names: RegExp): boolean =>
  types.test(mediaType) || (mediaType.toLowerCase() === "application/octet-stream" && names.test(name));

function reasonOf({ attachments: { max_bytes, max_count } }: EventConfig, size: number): string {
  if (size > max_bytes) return `it is larger than ${Math.round(max_bytes / 1000)} kB`;
  return `a mail may have ${max_count} files`;
}

/** What is known of a message apart from its text. */
export interface Arrival {
  readonly id: ExternalId;
  readonly listed: Listed;
  /** Epoch ms, used when the server returns no arrival time. */
  readonly now: number;
}
