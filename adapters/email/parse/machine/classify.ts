// Classifies the sender of a message, and detects automatic responses (RFC 3834, and older or non-standard headers of
// other programs). Pure. The order matters: the first match is returned, and the kinds most likely to cause a mail
// loop come first.

import { isDaemon, isListed, lettersOf, localOf } from "../headers.ts";
import type { Mail } from "../mail.ts";
import { absenceBySubject, allValues, firstValue, has } from "./absence.ts";
import { type Bounce, guessedBounce, reportedBounce } from "./bounce.ts";

/** The channel's own addresses and configuration. */
export interface OwnIdentity {
  /** Our addresses, lower case. Text after a plus sign in a message's address is ignored. */
  readonly addresses: readonly string[];
  /** True when we created this Message-ID. */
  isOurs(messageId: string): boolean;
  /** Automatic senders that are answered like people: addresses, or `@domain`. */
  readonly automaticSenders: readonly string[];
  /** Groups, lists and forwarders whose messages are answered (`accept_lists`): addresses. */
  readonly lists?: readonly string[];
  /** Set when From is not the author's address but that of a contact form or an accepted list (`Author`). */
  readonly rewritten?: { readonly via: "form" | "list"; readonly author: string | null };
  /** Answer messages that name us neither in To nor in Cc. */
  readonly bccAllowed: boolean;
}

export type MachineFinding =
  | { readonly kind: "person" }
  /** Never answered. `code` is one of own, delivery-report, read-receipt, abuse-report, auto-reply, auto-generated,
   *  bulk, list, null-sender, mailer-daemon, no-reply, machine, calendar-reply, forged-from, not-addressed. */
  | { readonly kind: "refused"; readonly code: string; readonly reason: string }
  /** A human decides: the message cannot be read (`code` as in `Sealed`), or may be automatic (`maybe-automatic`). */
  | { readonly kind: "held"; readonly code: string; readonly reason: string }
  | Bounce;

type Refused = Extract<MachineFinding, { kind: "refused" }>;

/** Returns a person's message, a refusal, or a delivery report about one of our messages. */
export function classify(mail: Mail, own: OwnIdentity): MachineFinding {
  const isExpected = mail.from.length === 1 && isListed(mail.from[0]?.address ?? "", own.automaticSenders);
  return (
    ownMail(mail, own) ??
    (mail.report && reportedBounce(mail)) ??
    report(mail) ??
    unreportedBounce(mail, own) ??
    forged(mail) ??
    (isExpected ? null : machine(mail, own)) ??
    unaddressed(mail, own) ??
    held(mail) ??
    (isExpected ? null : maybeAutomatic(mail, own)) ?? { kind: "person" }
  );
}

const refused = (code: string, reason: string): Refused => ({ kind: "refused", code, reason });

function ownMail(mail: Mail, own: OwnIdentity): Refused | null {
  if (mail.messageId !== null && own.isOurs(mail.messageId)) return refused("own", "the Message-ID is one of ours");
  const isOwn = ownAddress(own);
  // Many contact forms set From to our own address; the customer is in Reply-To.
  if (own.rewritten?.via !== "form" && mail.from.some((from) => isOwn(from.address)))
    return refused("own", "the sender's address is our own");
  return null;
}

function held({ sealed }: Mail): MachineFinding | null {
  return sealed === null ? null : { kind: "held", ...sealed };
}

function maybeAutomatic(mail: Mail, own: OwnIdentity): MachineFinding | null {
  const absence = absenceBySubject(mail, (id) => own.isOurs(id));
  return absence?.kind === "held" ? { kind: "held", code: "maybe-automatic", reason: absence.reason } : null;
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

/** Outlook.com's complaint reports contain the spam as an attached message, and no machine-readable part (RFC 5965). */
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

/** A bounce without a machine-readable part has the null sender or is from a mail server. */
function unreportedBounce(mail: Mail, own: OwnIdentity): Bounce | null {
  const { address = "", name = "" } = mail.from[0] ?? {};
  const daemon = isDaemon(address) || /mail delivery (?:sub)?system|mailer-daemon/i.test(name);
  if (!daemon && mail.returnPath !== "" && !has(mail, "x-failed-recipients")) return null;
  return guessedBounce(mail, daemon, (id) => own.isOurs(id));
}

function forged(mail: Mail): Refused | null {
  if (mail.fromFields === 1 && mail.from.length === 1) return null;
  return refused("forged-from", `${mail.fromFields} From fields with ${mail.from.length} addresses`);
}

function machine(mail: Mail, own: OwnIdentity): Refused | null {
  const automatic = automaticByHeader(mail);
  // Contact forms mark their messages as generated or bulk because a program sends them, but a person wrote the text.
  const isForm = own.rewritten?.via === "form";
  const generated =
    automatic !== null && (automatic.code === "bulk" || (isForm && automatic.code === "auto-generated"));
  if (automatic !== null && !generated) return refused(automatic.code, automatic.reason);
  const absence = absenceBySubject(mail, (id) => own.isOurs(id));
  if (absence?.kind === "refused") return refused("auto-reply", absence.reason);
  const answer = calendarReply(mail);
  if (answer !== null) return refused("calendar-reply", answer);
  if (isForm) return machineSender(mail, own);
  const accepted = isThroughList(mail, own.lists ?? []);
  return (
    (accepted ? null : listMessage(mail)) ??
    (automatic === null || accepted ? null : refused(automatic.code, automatic.reason)) ??
    (own.rewritten?.via === "list" && own.rewritten.author === null
      ? refused("list", "the list has replaced the author's address and does not name it")
      : null) ??
    machineSender(mail, own)
  );
}

function listMessage(mail: Mail): Refused | null {
  // Feedback-ID and X-MC-User do not count: relays such as Amazon SES and Mandrill add them to messages by people.
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
const listNames = new Set(["list-id", "list-post", "mailing-list", "x-mailing-list", "x-beenthere", "x-been-there"]);

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
    return refused("no-reply", "the sender's address accepts no replies");
  if (isProgram(from) || others.some(isDaemon)) return refused("machine", "the sender's address is a program's");
  return null;
}

/** Matches "do not answer" phrases in the local part, without dots, dashes and underscores. */
const noReply =
  /no(?:t)?reply|noreplies|noreplay|donotreply|dontreply|donotrespond|donotanswer|noanswer|noresponse|neverreply|unmonitored|nichtantworten|keineantwort|nichtbeantworten|nepasrepondre|pasdereponse|sansreponse|noresponder|norespondas|nocontestar|noreponder|nonrispondere|norispondere|nietbeantwoorden|nietantwoorden|geenantwoord|naoresponda|naoresponder|nieodpowiadaj|nieodpowiadac|svarainte|svarejinte|svarikke|ikkesvar|besvarikke|alavastaa|eivastausta|neodpovidat|neodpovidejte|neodpovedat|neotvechat|neotvechajte|yanitlamayin|cevaplamayin|neraspunde|nuraspunde|nevalaszoljon|nincsvalasz|neodgovaraj|neodgovarjaj/;

/** Local parts that always belong to programs, without dashes and underscores. */
const programs = new Set(
  [
    "mailerdaemon daemon postmaster maildaemon maildeliverysubsystem mailsystem listserv majordomo mailman",
    "bounce bounces autoreply autoresponder autoresponse autoanswer automailer nobody wwwdata cron system",
    "notification notifications notify alerts newsletter newsletters mailrobot robot bot nagios",
  ].flatMap((line) => line.split(" ")),
);

/** True for "no-reply" in any of its spellings and languages, also as a part: `orders-noreply`, `noreply.12345`. */
const isNoReply = (address: string): boolean => noReply.test(lettersOf(localOf(address)));

/** True for a mailbox that belongs to a program by its name: `bounces+123`, `listserv`, `notifications`. */
const isProgram = (address: string): boolean =>
  programs.has((localOf(address).split("+", 1)[0] ?? "").replace(/[-_]/g, "").toLowerCase());

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

/** Why a message is automatic, or null. */
export interface Automatic {
  readonly code: "auto-reply" | "auto-generated" | "bulk";
  readonly reason: string;
}

/** Returns the finding of headers that are sufficient alone. */
function automaticByHeader(mail: Mail): Automatic | null {
  // Responders and relays add fields of their own to those of another message, so one finding in any field suffices.
  const submitted = allValues(mail, "auto-submitted").find((value) => value !== "" && value !== "no");
  if (submitted !== undefined) {
    const code = submitted === "auto-generated" || submitted === "auto-notified" ? "auto-generated" : "auto-reply";
    return { code, reason: `Auto-Submitted: ${submitted}` };
  }
  for (const name of [
    "x-autoreply",
    "x-autorespond",
    "x-autoresponder",
    "x-auto-reply",
    "x-mail-autoreply",
    "x-vacation",
    "x-autogenerated",
  ]) {
    if (allValues(mail, name).some((value) => value !== "no" && value !== "false"))
      return { code: "auto-reply", reason: `the header ${name}` };
  }
  for (const name of ["precedence", "x-precedence", "preference"]) {
    const values = allValues(mail, name).map((value) => value.replace("-", "_"));
    if (values.includes("auto_reply")) return { code: "auto-reply", reason: `${name}: auto_reply` };
    const bulk = values.find((value) => value === "bulk" || value === "junk" || value === "list");
    if (bulk !== undefined) return { code: "bulk", reason: `${name}: ${bulk}` };
  }
  const odd = mail.headers.find((header) =>
    otherSigns.get(header.name)?.test(header.value.slice(0, 500).toLowerCase()),
  );
  if (odd !== undefined) return { code: "auto-reply", reason: `the header ${odd.name}` };
  return null;
}

const otherSigns: ReadonlyMap<string, RegExp> = new Map([
  ["x-fc-machinegenerated", /^(?:true|yes)/],
  ["x-post-messageclass", /autoresponder/],
  ["x-ms-exchange-generated-message-source", /./],
  ["x-autoreply-from", /./],
  ["x-autorespond-from", /./],
  ["x-cron-env", /./],
  ["delivered-to", /^autoresponder/],
  ["x-amazon-mail-relay-type", /notification/],
  // iCloud's vacation response has no other header; other values occur on ordinary messages.
  ["x-apple-action", /^\s*vacation\b/],
]);

/** Calendar methods that a program sends on a click. An invitation (REQUEST, PUBLISH) is a person's message. */
const calendarAnswers = new Set(["reply", "counter", "declinecounter", "refresh", "cancel"]);

/** How calendar programs begin the subject of a response to an invitation, by language; lower case. */
const responses =
  /^(?:accepted|tentative(?:ly accepted)?|declined|cancell?ed|new time proposed|updated invitation|zugesagt|mit vorbehalt|vorläufig zugesagt|abgelehnt|abgesagt|angenommen|accepté|acceptée|provisoire|refusé|décliné|annulé|aceptado|aceptada|provisional|rechazado|rechazada|cancelado|cancelada|accettato|provvisorio|rifiutato|annullato|geaccepteerd|voorlopig|geweigerd|afgewezen|geannuleerd|aceite|aceito|provisório|tentativa|recusado|recusada|zaakceptowano|wstępnie|odrzucono|odwołano|accepterat|accepterad|preliminärt|avböjt|avböjd|accepteret|foreløbig|afvist|godtatt|akseptert|avslått|hyväksytty|alustava|hylätty|přijato|nezávazně|odmítnuto|prijaté|принято|под вопросом|отклонено|прийнято|kabul edildi|geçici|reddedildi|elfogadva|feltételes|elutasítva|acceptat|respins|αποδοχή|απορρίφθηκε|承諾|承认|已接受|已拒绝|已暂定|已接受|已謝絕|辞退|仮の予定|수락|거절|미정|התקבל|נדחה|تم القبول|مرفوض)\s?(?::|：)/i;

/** Returns why a message is a calendar program's response to an invitation, or null. */
function calendarReply(mail: Mail): string | null {
  const method = mail.calendarMethod ?? "";
  if (calendarAnswers.has(method)) return `a calendar response (METHOD:${method.toUpperCase()})`;
  const isCalendar =
    (mail.calendarMethod !== null && method === "") ||
    /calendarmessage/.test(firstValue(mail, "content-class")) ||
    mail.sealed?.code === "winmail";
  return isCalendar && responses.test(mail.subject.slice(0, 200)) ? "a calendar response by its subject" : null;
}
