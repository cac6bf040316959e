// Converts a received message into events: one message event, or one delivery event for each recipient of a
// bounce. Determines the author and the addresses that may receive the response. Runs in the parser's worker thread, where
// `bridgehead/contract` can be imported for its types only.
//
// Reply-To and Cc are text that any sender can write. A response continues a conversation of the From address, so it
// goes to another address only when From is authenticated or the other address belongs to the same organization.

import type { ExternalId, InboundEvent, MessageEvent, Party, Refusal, ThreadToken } from "bridgehead/contract";
import { attachmentsOf, notesOnFiles, type Omitted } from "./attachments.ts";
import type { EmailConfig } from "./config.ts";
import type { Listed } from "./imap/mailbox.ts";
import { dateOf, type Identity, identity, isListed, mailboxesOf, surrogateId } from "./parse/headers.ts";
import { deliveries } from "./parse/machine/bounce.ts";
import { classify, type MachineFinding } from "./parse/machine/classify.ts";
import type { Mail, Mailbox, SenderAuth } from "./parse/mail.ts";
import { sealedInFiles } from "./parse/special-parts.ts";
import { isSameOrganization } from "./providers.ts";

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

const certified: SenderAuth = {
  result: "none",
  method: "dmarc",
  domain: "",
  detail: "the provider of this certified mail (PEC) is not in accept_lists",
};
const loopHeader = "x-bridgehead-hops";
/** Characters of text; with its subject and the names of its files a message is below the limit of the platform's records. */
const maxText = 980_000;
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
      ...(author.via === "direct" ? {} : { rewritten: { via: author.via, author: author.author?.address ?? null } }),
    },
  );
  if (finding.kind === "bounce") {
    return { kind: "events", events: deliveries(self, arrival, mail, finding, raw) };
  }
  const isUntrusted = mail.certifiedAuthor !== null && author.via === "direct";
  const checked = finding.kind === "refused" ? null : checkSender(config, isUntrusted ? certified : auth);
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
function refusalOf(finding: Exclude<MachineFinding, { kind: "bounce" }>, checked: Refusal | null): Refusal | null {
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
  const attachments = hasFiles(mail, omitted) ? attachmentsOf(config, mail, omitted) : [];
  const text = readable(mail, refusal);
  const isCut = truncated || mail.isCut || text.length > maxText;
  const hops = hopsOf(mail);
  const sender = verified ? ("verified" as const) : ("unverified" as const);
  // The refusal code is part of the fingerprint. Otherwise a copy refused for its route (a list, Bcc) would deduplicate
  // the copy that was delivered directly. The author is part of it as well. Any recipient of the message can send a
  // copy before the original arrives here, and must not turn the original into a duplicate.
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
    sentAt: new Date(arrivalTime(arrival, mail)),
    ...(mail.subject ? { subject: mail.subject } : {}),
    text: text.slice(0, maxText).toWellFormed(),
    ...(mail.wordless ? { wordless: true } : {}),
    ...(attachments.length > 0 ? { attachments } : {}),
    ...(refusal ? { refusal } : {}),
    ...(hops > 0 ? { hops } : {}),
    ...notesOf(config, mail, { omitted, truncated: isCut }, sender),
    ...(config.sender_auth.mode === "off" ? {} : { sender }),
    ...(raw === null ? {} : { raw }),
  };
}

/** Returns the text without ciphertext. Text next to other encrypted content is that of programs, except for winmail.dat. */
function readable({ sealed, text }: Mail, refusal: Refusal | null): string {
  if (!refusal?.hold || sealed === null || sealed.code === "winmail") return text;
  return sealed.code === "pgp-encrypted" ? text.replace(ciphertext, "").trim() : "";
}

const ciphertext = /-----BEGIN PGP MESSAGE-----[^]*?(?:-----END PGP MESSAGE-----|$)/g;

/** Returns INTERNALDATE. A program that appends an old message without its date, such as a migration, makes it the time of the
 *  copy. Date and the topmost Received then agree that the message is days older, and the newer of the two is returned. One of
 *  them alone proves nothing: the author's clock may be wrong, or the message waited in a queue. A message that a person
 *  moves keeps its INTERNALDATE (RFC 3501, 6.4.7); where a program loses it, its age counts as well. */
function arrivalTime({ listed: { arrived }, now, copiedAfter }: Arrival, mail: Mail): number {
  if (arrived === null) return mail.date ?? now;
  const received = mail.headers.find(({ name }) => name === "received")?.value ?? "";
  const receivedAt = dateOf(received.slice(received.lastIndexOf(";") + 1));
  if (mail.date === null || receivedAt === null) return arrived;
  const delivered = Math.max(mail.date, receivedAt);
  return arrived - delivered > copiedAfter ? delivered : arrived;
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
  const values = mail.headers.filter(({ name }) => name === loopHeader).map(({ value }) => value.trim());
  return values.reduce((most, value) => (/^\d{1,3}$/.test(value) ? Math.max(most, Number(value)) : most), 0);
}

function checkSender(config: EventConfig, auth: SenderAuth | null): Refusal | "again" | null {
  if (config.sender_auth.mode !== "require" || auth?.result === "pass") return null;
  if (auth?.result === "temperror") return "again";
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
  if (config.attachments.name_to_agent && hasFiles(mail, omitted))
    Object.assign(notes, notesOnFiles(config, mail, omitted));
  if (truncated) notes["text_truncated"] = "the message is too large, and only the beginning of its text was read";
  if (mail.calendar?.appointment) notes["appointment"] = mail.calendar.appointment;
  if (mail.forwardedFrom) notes["forwarded_from"] = mail.forwardedFrom.address;
  return Object.keys(notes).length > 0 ? { notes } : {};
}

const hasFiles = (mail: Mail, omitted: readonly Omitted[]): boolean => mail.attachments.length + omitted.length > 0;

function partyOf(mailbox: Mailbox): Party {
  return mailbox.name ? { address: mailbox.address, name: mailbox.name } : { address: mailbox.address };
}

interface Author {
  /** `form`: From is a contact form, `author` its Reply-To. `list`: From is an accepted list that
   *  replaced the author. */
  readonly via: "direct" | "form" | "list";
  /** The customer; null when an accepted list does not name the author. */
  readonly author: Mailbox | null;
  /** Where the response goes when that is not the author's address. */
  readonly replyTo: Mailbox | null;
  /** The other recipients that may receive the response and take part in the conversation. */
  readonly others: readonly Mailbox[];
  /** True when the From address is authenticated and is the author's own. */
  readonly verified: boolean;
}

/** With more recipients a message is a circular, or an attempt to make us write to all of them: only its
 *  author is answered. */
const othersLimit = 50;

/** Applies `contact_forms` and `accept_lists` of the configuration. `auth` is null when `sender_auth` is off. */
function authorOf(config: EventConfig, self: Identity, mail: Mail, auth: SenderAuth | null): Author {
  const from = mail.from.length === 1 && mail.fromFields === 1 ? mail.from[0] : undefined;
  const first = mail.from[0] ?? mail.sender ?? { address: "unknown@invalid", name: "" };
  const alone = { replyTo: null, others: [], verified: false };
  if (from === undefined) return { via: "direct", author: first, ...alone };
  const authenticated = auth?.result === "pass";
  const isExternal = (one: Mailbox) => !self.isOwn(one.address) && !isListed(one.address, config.accept_lists);
  const isTrustedRelay = isListed(from.address, config.accept_lists);
  // Anybody can build the envelope of a certified mail.
  if (mail.certifiedAuthor !== null && (isTrustedRelay || config.sender_auth.mode !== "require"))
    return { via: "list", author: mail.certifiedAuthor, ...alone };
  if (isTrustedRelay) {
    const author = originalAuthor(mail, isExternal);
    // Without list headers the From address is itself the author.
    if (author !== null || isFromList(mail)) return { via: "list", author, ...alone };
  }
  const customer = formCustomer(config, self, mail, from, authenticated);
  if (customer !== null) return { via: "form", author: customer, ...alone };
  const isTrusted = (one: Mailbox) => authenticated || isSameOrganization(one.address, from.address);
  const wanted = wantedReplies(mail, isExternal);
  const namesFrom = mail.replyTo.some((one) => one.address === from.address);
  const replyTo = namesFrom || !wanted.every(isTrusted) ? null : (wanted[0] ?? null);
  const others = [...wanted, ...[...mail.to, ...mail.cc].filter(isExternal)].filter(
    (one) => isTrusted(one) && one.address !== from.address && one.address !== replyTo?.address,
  );
  const all = unique(others);
  return {
    via: "direct",
    author: from,
    replyTo,
    others: all.length > othersLimit ? [] : all,
    verified: authenticated,
  };
}

/** Returns the Reply-To of a contact form, or null when the message does not come from one. Forms write
 *  From in our own domain. Anyone can forge that, so From must be listed in `contact_forms` or
 *  authenticated. The customer's address is typed into the form and is therefore never verified. */
function formCustomer(
  config: EventConfig,
  self: Identity,
  mail: Mail,
  from: Mailbox,
  authenticated: boolean,
): Mailbox | null {
  const [customer, ...more] = unique(mail.replyTo);
  if (customer === undefined || more.length > 0) return null;
  if (self.isOwn(customer.address) || customer.address === from.address) return null;
  if (isListed(from.address, config.contact_forms)) return customer;
  const isOurs = self.addresses.some((own) => isSameOrganization(own, from.address));
  const isForm = authenticated && isOurs && !isSameOrganization(customer.address, from.address);
  return isForm ? customer : null;
}

/** Returns the addresses in Reply-To apart from our own and those of lists. The response goes to the first of them, with the
 *  others as further recipients. It goes to From when From is one of them or when one of them is not trusted. */
function wantedReplies(mail: Mail, isExternal: (one: Mailbox) => boolean): readonly Mailbox[] {
  const lists = new Set(mailboxesOf(mail.headers, "list-post").map(({ address }) => address));
  return unique(mail.replyTo).filter((one) => isExternal(one) && !lists.has(one.address));
}

const isFromList = (mail: Mail): boolean =>
  mail.headers.some(({ name }) => /^(?:list-(?:id|post|unsubscribe)|mailing-list|x-original-sender)$/.test(name));

/** Returns the author behind a list. Lists that rewrite From for DMARC name the author in the
 *  X-Original-From, Reply-To or X-Original-Sender header. */
function originalAuthor(mail: Mail, isExternal: (one: Mailbox) => boolean): Mailbox | null {
  const sources = [
    mailboxesOf(mail.headers, "x-original-from"),
    mail.replyTo,
    mailboxesOf(mail.headers, "x-original-sender"),
  ];
  for (const source of sources) {
    const [author, ...more] = unique(source.filter(isExternal));
    if (author !== undefined && more.length === 0) return author;
  }
  return null;
}

function unique(mailboxes: readonly Mailbox[]): Mailbox[] {
  return [...new Map(mailboxes.map((one) => [one.address, one])).values()];
}

/** What is known of a message apart from its text. */
export interface Arrival {
  readonly id: ExternalId;
  readonly listed: Listed;
  /** Epoch ms, used when the server returns no arrival time. */
  readonly now: number;
  /** In ms: a message that was delivered this long before it arrived is a copy. */
  readonly copiedAfter: number;
}
