// Classifies the sender of a message. Pure. The order matters: the first match is returned, and the kinds
// most likely to cause a mail loop come first.

import { automaticByHeader, automaticBySubject, calendarReply, has } from "./auto-reply.ts";
import { type Bounce, guessedBounce, reportedBounce } from "./bounce.ts";
import { isDaemon, isListed, isNoReply, isProgram } from "./machine-senders.ts";
import type { Mail } from "./mail.ts";

/** The channel's own addresses and configuration. */
export interface OwnIdentity {
  /** Our addresses, lower case. Text after a plus sign in a message's address is ignored. */
  readonly addresses: readonly string[];
  /** True when we created this Message-ID. */
  isOurs(messageId: string): boolean;
  /** Automatic senders that are answered like people: addresses, or `@domain`. */
  readonly robots: readonly string[];
  /** Groups, lists and forwarders whose messages are answered (`accept_lists`): addresses. */
  readonly lists?: readonly string[];
  /** Set when From is not the author's address but that of a contact form or an accepted list (author.ts). */
  readonly rewritten?: { readonly via: "form" | "list"; readonly author: string | null };
  /** Answer messages that name us neither in To nor in Cc. */
  readonly bccAllowed: boolean;
}

export type Finding =
  | { readonly kind: "person" }
  /** Never answered. `code` is one of own, delivery-report, read-receipt, abuse-report, auto-reply,
   *  auto-generated, bulk, list, null-sender, mailer-daemon, no-reply, machine, calendar-reply,
   *  forged-from, not-addressed. */
  | { readonly kind: "refused"; readonly code: string; readonly reason: string }
  /** From a person, but only a human can read the message. `code` as in `Sealed`. */
  | { readonly kind: "held"; readonly code: string; readonly reason: string }
  | Bounce;

type Refused = Extract<Finding, { kind: "refused" }>;

/** Returns a person's message, a refusal, or a delivery report about one of our messages. */
export function classify(mail: Mail, own: OwnIdentity): Finding {
  const robot = mail.from.length === 1 && isListed(mail.from[0]?.address ?? "", own.robots);
  return (
    ownMail(mail, own) ??
    reportedBounce(mail) ??
    report(mail) ??
    guessedBounce(mail, (id) => own.isOurs(id)) ??
    forged(mail) ??
    (robot ? null : machine(mail, own)) ??
    unaddressed(mail, own) ??
    held(mail) ?? { kind: "person" }
  );
}

const refused = (code: string, reason: string): Refused => ({ kind: "refused", code, reason });

function ownMail(mail: Mail, own: OwnIdentity): Refused | null {
  if (mail.messageId !== null && own.isOurs(mail.messageId))
    return refused("own", "the Message-ID is one of ours");
  const isOwn = ownAddress(own);
  // Many contact forms set From to our own address; the customer is in Reply-To.
  if (own.rewritten?.via !== "form" && mail.from.some((from) => isOwn(from.address)))
    return refused("own", "the sender's address is our own");
  return null;
}

function held({ sealed }: Mail): Finding | null {
  return sealed === null ? null : { kind: "held", ...sealed };
}

function report(mail: Mail): Refused | null {
  if (isComplaint(mail)) return refused("abuse-report", "an abuse report of Outlook.com (JMRP)");
  if (mail.report === null) return null;
  switch (mail.report.type) {
    case "disposition-notification":
      return refused("read-receipt", "a read receipt");
    case "feedback-report":
      return refused("abuse-report", "an abuse report");
    case "delivery-status":
      return refused("delivery-report", "a delivery report without a failed recipient");
    default:
      return refused("auto-generated", `a report of type ${mail.report.type}`);
  }
}

/** Outlook.com's complaint reports contain the spam as an attached message, and no machine-readable part
 *  (RFC 5965). */
function isComplaint(mail: Mail): boolean {
  if (has(mail, "x-hmxmroriginalrecipient")) return true;
  const from = mail.from[0]?.address ?? "";
  const reporter = /^(?:staff|fbl|jmrp)@(?:hotmail|outlook|live|microsoft)\.com$/.test(from);
  const subject = /^complaint about message from\b/i.test(mail.subject);
  if (reporter && subject) return true;
  return (
    (reporter || subject) &&
    mail.attachments.some(
      ({ mediaType, bytes }) =>
        mediaType.startsWith("message/") &&
        /^x-hmxmroriginalrecipient:/im.test(Buffer.from(bytes.subarray(0, 100_000)).toString("latin1")),
    )
  );
}

function forged(mail: Mail): Refused | null {
  if (mail.fromFields === 1 && mail.from.length === 1) return null;
  return refused("forged-from", `${mail.fromFields} From fields with ${mail.from.length} addresses`);
}

function machine(mail: Mail, own: OwnIdentity): Refused | null {
  const automatic = automaticByHeader(mail);
  // Contact forms mark their messages as generated or bulk because a program sends them, but a person wrote
  // the text.
  const isForm = own.rewritten?.via === "form";
  const generated =
    automatic !== null && (automatic.code === "bulk" || (isForm && automatic.code === "auto-generated"));
  if (automatic !== null && !generated) return refused(automatic.code, automatic.reason);
  const absence = automaticBySubject(mail, (id) => own.isOurs(id));
  if (absence !== null) return refused(absence.code, absence.reason);
  const answer = calendarReply(mail);
  if (answer !== null) return refused("calendar-reply", answer);
  if (isForm) return machineSender(mail, own);
  const accepted = isThroughList(mail, own.lists ?? []);
  return (
    (accepted ? null : list(mail)) ??
    (automatic === null || accepted ? null : refused(automatic.code, automatic.reason)) ??
    (own.rewritten?.via === "list" && own.rewritten.author === null
      ? refused("list", "the list has replaced the author's address and does not name it")
      : null) ??
    machineSender(mail, own)
  );
}

function list(mail: Mail): Refused | null {
  // Feedback-ID and X-MC-User do not count: relays such as Amazon SES and Mandrill add them to messages by
  // people.
  const name = [
    "list-id",
    "list-unsubscribe",
    "list-post",
    "list-help",
    "list-subscribe",
    "list-owner",
    "list-archive",
    "mailing-list",
    "x-mailing-list",
    "x-mailinglist",
    "x-list-unsubscribe",
    "x-campaign",
    "x-campaign-id",
    "x-campaignid",
    "x-csa-complaints",
  ].find((header) => has(mail, header));
  return name === undefined ? null : refused("list", `the header ${name}`);
}

/** Headers that name the list itself. List-Unsubscribe also occurs on newsletters. */
const listNames = new Set([
  "list-id",
  "list-post",
  "mailing-list",
  "x-mailing-list",
  "x-beenthere",
  "x-been-there",
]);

/** True when the headers name a list of `accept_lists` and no other list. A newsletter that arrives
 *  through an accepted list names another one. */
function isThroughList(mail: Mail, lists: readonly string[]): boolean {
  if (lists.length === 0) return false;
  const named = mail.headers.filter(({ name }) => listNames.has(name));
  if (named.length === 0 || !named.every(({ value }) => namesOne(value.slice(0, 2000).toLowerCase(), lists)))
    return false;
  return !["x-campaign", "x-campaign-id", "x-campaignid", "x-csa-complaints"].some((name) => has(mail, name));
}

/** True when an address in the value, or a List-Id such as `<group.example.com>`, is on the list. */
function namesOne(value: string, lists: readonly string[]): boolean {
  const addresses = value.match(/[^\s<>:,;"'()@]{1,64}@[^\s<>:,;"'()@?]{1,255}/g) ?? [];
  if (addresses.some((address) => isListed(address, lists))) return true;
  const id = /<([^<>@\s]{1,255})>\s*$/.exec(value)?.[1] ?? value.trim();
  return lists.some((entry) => id === entry.toLowerCase().replace("@", "."));
}

function machineSender(mail: Mail, own: OwnIdentity): Refused | null {
  const from = own.rewritten?.author ?? mail.from[0]?.address ?? "";
  if (isDaemon(from)) return refused("mailer-daemon", "a mail server's own address");
  if (mail.returnPath === "" && own.rewritten?.via !== "form")
    return refused("null-sender", "the mail has the null sender");
  // The response goes to Reply-To when that header is present.
  const others = [mail.sender?.address, ...mail.replyTo.map((one) => one.address)].filter(
    (address) => address !== undefined,
  );
  if (isNoReply(from) || mail.replyTo.some((one) => isNoReply(one.address)))
    return refused("no-reply", "nobody reads the sender's address");
  if (isProgram(from) || others.some(isDaemon))
    return refused("machine", "the sender's address is a program's");
  return null;
}

function unaddressed(mail: Mail, own: OwnIdentity): Refused | null {
  if (own.bccAllowed) return null;
  const isOwn = ownAddress(own);
  const lists = own.lists ?? [];
  if ([...mail.to, ...mail.cc].some((one) => isOwn(one.address) || isListed(one.address, lists))) return null;
  if (isThroughList(mail, lists)) return null;
  return refused("not-addressed", "we are neither in To nor in Cc");
}

function ownAddress(own: OwnIdentity): (address: string) => boolean {
  const addresses = new Set(own.addresses.map((address) => address.toLowerCase()));
  return (address) => {
    const lower = address.toLowerCase();
    return addresses.has(lower) || addresses.has(untagged(lower));
  };
}

/** Returns the address without the part between the plus sign and the at sign. */
function untagged(address: string): string {
  const plus = address.indexOf("+");
  const at = address.indexOf("@", plus);
  return plus < 0 || at < 0 ? address : address.slice(0, plus) + address.slice(at);
}
