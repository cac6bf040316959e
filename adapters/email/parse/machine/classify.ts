// Classifies the sender of a message, and detects automatic responses (RFC 3834, and older or non-standard headers of
// other programs). Pure. The order matters: the first match is returned, and the kinds most likely to cause a mail
// loop come first.

import { isDaemon, isListed, isReplySubject, lettersOf, localOf, mailboxesOf, withoutPlus } from "../headers.ts";
import type { Mail } from "../mail.ts";
import { type Bounce, guessedBounce, incompleteBounce, isDmarcReport, isMailServer, reportedBounce } from "./bounce.ts";
import {
  absenceNounsByLetter,
  absenceOfNotes,
  absenceStarts,
  absenceStartsByLetter,
  announcements,
  answerPrefix,
  autoReplyHeaders,
  calendarAnswers,
  dmarcReport,
  listHeaders,
  listNames,
  noReply,
  otherSigns,
  programs,
  responses,
  tag,
} from "./phrases.ts";

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
  /** A human decides: the message cannot be read (`code` as in `Sealed`), may be automatic (`maybe-automatic`), or is a
   *  calendar's with the words of a person (`calendar-reply`). */
  | { readonly kind: "held"; readonly code: string; readonly reason: string }
  | Bounce;

type Refused = Extract<MachineFinding, { kind: "refused" }>;
type CalendarAnswer = Exclude<MachineFinding, Bounce | { kind: "person" }>;

/** Returns a person's message, a refusal, or a delivery report about one of our messages. */
export function classify(mail: Mail, own: OwnIdentity): MachineFinding {
  const isExpected = mail.from.length === 1 && isListed(mail.from[0]?.address ?? "", own.automaticSenders);
  const absence = isExpected ? null : absenceBySubject(mail, (id) => own.isOurs(id));
  const answer = isExpected ? null : calendarAnswer(mail);
  return (
    ownMail(mail, own) ??
    (mail.report && (reportedBounce(mail) ?? incompleteBounce(mail, isMailServer(mail), (id) => own.isOurs(id)))) ??
    report(mail) ??
    unreportedBounce(mail, own) ??
    forged(mail) ??
    (isExpected ? null : machine(mail, own, absence, answer)) ??
    unaddressed(mail, own) ??
    (mail.sealed && ({ kind: "held", ...mail.sealed } as const)) ??
    answer ??
    (absence?.kind === "held" ? { ...maybe, reason: absence.reason } : null) ?? { kind: "person" }
  );
}

const maybe = { kind: "held", code: "maybe-automatic" } as const;
const refused = (code: string, reason: string): Refused => ({ kind: "refused", code, reason });

function ownMail(mail: Mail, own: OwnIdentity): Refused | null {
  if (mail.messageId !== null && own.isOurs(mail.messageId)) return refused("own", "the Message-ID is one of ours");
  // Many contact forms set From to our own address; the customer is in Reply-To.
  if (own.rewritten?.via === "form") return null;
  // A group that is the channel's own address writes it into From.
  const isGroup = own.rewritten?.via === "list" && isThroughList(mail, own.lists ?? []);
  const senders = [own.rewritten?.author ?? "", ...(isGroup ? [] : mail.from.map((from) => from.address))];
  return senders.some(ownAddress(own)) ? refused("own", "the sender's address is our own") : null;
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
  const daemon = isMailServer(mail);
  if (!daemon && mail.returnPath !== "" && !has(mail, "x-failed-recipients")) return null;
  return guessedBounce(mail, daemon, (id) => own.isOurs(id));
}

function forged(mail: Mail): Refused | null {
  if (mail.fromFields === 1 && mail.from.length === 1) return null;
  return refused("forged-from", `${mail.fromFields} From fields with ${mail.from.length} addresses`);
}

function machine(
  mail: Mail,
  own: OwnIdentity,
  absence: AbsenceFinding | null,
  answer: CalendarAnswer | null,
): MachineFinding | null {
  const found = automaticByHeader(mail);
  // Calendars mark what a person writes in them as generated.
  const automatic = answer?.kind === "held" && found?.code === "auto-generated" ? null : found;
  // Contact forms mark their messages as generated or bulk because a program sends them, but a person wrote the text.
  const isForm = own.rewritten?.via === "form";
  const generated =
    automatic !== null && (automatic.code === "bulk" || (isForm && automatic.code === "auto-generated"));
  if (automatic !== null && !generated) return refused(automatic.code, automatic.reason);
  if (absence?.kind === "refused") return refused("auto-reply", absence.reason);
  if (answer?.kind === "refused") return answer;
  if (mail.attachments.length > 0 && isDmarcReport(mail, own.addresses))
    return refused("auto-generated", "a DMARC report by the name of its file");
  if (isRecall(mail)) return refused("auto-generated", "a request to recall a message");
  if (isForm) return machineSender(mail, own);
  const accepted = isThroughList(mail, own.lists ?? []);
  const mass = accepted ? null : (listMessage(mail) ?? automatic);
  // Ticket systems and sales tools mark all their mail so, also what a person writes in them. A list names itself.
  const answersUs =
    mass !== null &&
    [...mail.inReplyTo, ...mail.references].some((id) => own.isOurs(id)) &&
    !mail.headers.some(({ name }) => listNames.has(name));
  return (
    (mass === null || answersUs ? null : refused(mass.code, mass.reason)) ??
    (own.rewritten?.via === "list" && own.rewritten.author === null
      ? refused("list", "the list has replaced the author's address and does not name it")
      : null) ??
    machineSender(mail, own) ??
    (answersUs ? { ...maybe, reason: `${mass.reason}, in an answer to our message` } : null)
  );
}

/** True for Outlook's request to recall a message. Its words depend on the language: one sentence that begins with the sender's
 *  name and has in quotes what follows the prefix of the subject. */
function isRecall({ subject, from: [sender], fullText }: Mail): boolean {
  const [, recalled] = /^[^\s:：]{2,20}\s?[:：]\s?(.+)$/u.exec(subject.slice(0, 300)) ?? [];
  if (!recalled || !sender?.name || fullText.length > 1000 || isReplySubject(subject)) return false;
  const [before = "", after = "", ...more] = fullText.replace(/\s+/g, " ").trim().split(recalled);
  if (more.length > 0 || !before.startsWith(sender.name) || before.length > sender.name.length + 60) return false;
  return /["“”„«»「『] ?$/.test(before) && /^ ?["“”«»」』][^"?]{0,40}$/.test(after);
}

function listMessage(mail: Mail): Refused | null {
  const name = listHeaders.find((header) => has(mail, header));
  return name === undefined ? null : refused("list", `the header ${name}`);
}

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

function machineSender(mail: Mail, own: OwnIdentity): MachineFinding | null {
  const from = own.rewritten?.author ?? mail.from[0]?.address ?? "";
  if (isDaemon(from)) return refused("mailer-daemon", "a mail server's own address");
  if (mail.returnPath === "" && own.rewritten?.via !== "form")
    return refused("null-sender", "the mail has the null sender");
  // The response goes to Reply-To when that header is present.
  const answered = [from, ...mail.replyTo.map((one) => one.address)];
  const noReplies = answered.map(noReplyIn);
  if (noReplies.includes("word")) return refused("no-reply", "the sender's address accepts no replies");
  // Relays that send for people write their own "bounces@..." into Sender, so only a mail server counts there.
  const isSentByServer = mail.sender !== null && isDaemon(mail.sender.address);
  if (isSentByServer || answered.some((one) => isProgram(one) || isDaemon(one)))
    return refused("machine", "the sender's address is a program's");
  return noReplies.includes("letters") ? { ...maybe, reason: "the sender's address has letters of no-reply" } : null;
}

/** Returns where an address has "no-reply", in any of its spellings and languages: `word` at the start of a word
 *  (`orders-noreply`, `no.reply.12345`), `letters` inside of one, which may be a name ("kinoreply"). Words that only together
 *  form it count from their start: "bruno.reply" is a person. */
function noReplyIn(address: string): "word" | "letters" | null {
  const local = localOf(address).slice(0, 100);
  if (!noReply.test(lettersOf(local))) return null;
  const words = local.split(/[^\p{L}\p{M}\p{N}]+/u).map(lettersOf);
  if (words.some((_, i) => words.slice(i).join("").search(noReply) === 0)) return "word";
  return words.some((word) => noReply.test(word)) ? "letters" : null;
}

/** True for a mailbox that belongs to a program by its name: `bounces+123`, `listserv`, `notifications`. */
const isProgram = (address: string): boolean =>
  programs.has((localOf(address).split("+", 1)[0] ?? "").replace(/[-_]/g, "").toLowerCase());

function unaddressed(mail: Mail, own: OwnIdentity): Refused | null {
  if (own.bccAllowed) return null;
  const isOwn = ownAddress(own);
  const lists = own.lists ?? [];
  // A colleague who redirects a mail leaves To as it is (RFC 5322, 3.6.6).
  const resent = ["resent-to", "resent-cc"].flatMap((name) => mailboxesOf(mail.headers, name));
  if ([...mail.to, ...mail.cc, ...resent].some((one) => isOwn(one.address) || isListed(one.address, lists)))
    return null;
  if (isThroughList(mail, lists)) return null;
  return refused("not-addressed", "we are neither in To nor in Cc, and no alias or accepted list is");
}

function ownAddress(own: OwnIdentity): (address: string) => boolean {
  const addresses = new Set(own.addresses.map((address) => address.toLowerCase()));
  return (address) => {
    const lower = address.toLowerCase();
    return addresses.has(lower) || addresses.has(withoutPlus(lower)[0]);
  };
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
  for (const name of autoReplyHeaders) {
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
  const isReport = dmarcReport.test(mail.subject.slice(0, 1000));
  return isReport ? { code: "auto-generated", reason: "the subject of a DMARC report (RFC 7489, 7.2.1.1)" } : null;
}

/** Returns what a calendar program sends when a person answers or cancels an invitation. It is held when the person has
 *  written a comment or proposes another time. */
function calendarAnswer(mail: Mail): CalendarAnswer | null {
  const { calendar } = mail;
  const method = calendar?.method ?? "";
  const isByMethod = calendarAnswers.has(method);
  const isCalendar =
    calendar?.method === "" ||
    /calendarmessage/.test(firstValue(mail, "content-class")) ||
    mail.sealed?.code === "winmail";
  if (!isByMethod && !(isCalendar && responses.test(mail.subject.slice(0, 200)))) return null;
  const what = `a calendar response ${isByMethod ? `(METHOD:${method.toUpperCase()})` : "by its subject"}`;
  return calendar?.written.length
    ? { kind: "held", code: "calendar-reply", reason: `${what} with a comment or another time` }
    : refused("calendar-reply", what);
}

/** `held`: a human decides whether the message is automatic. */
interface AbsenceFinding {
  readonly kind: "refused" | "held";
  readonly reason: string;
}

/** Finds the subject of an automatic response. People write such subjects too, also when they answer an old mail under a new
 *  subject, so a message is refused only with another sign; it is held when its subject alone has the form of a program or
 *  of an absence message. "Re: On vacation" repeats the subject of a customer or of a program; a human decides. */
function absenceBySubject(mail: Mail, isOurs: (messageId: string) => boolean): AbsenceFinding | null {
  const { subject, isAnswer } = bareSubject(mail.subject.slice(0, 1000).toLowerCase());
  const cited = [...mail.inReplyTo, ...mail.references];
  const rest = afterAbsence(subject);
  if (rest === null) return isAnswer ? null : absenceByNoun(subject, cited.length > 0);
  const suppress = firstValue(mail, "x-auto-response-suppress");
  const isAnnounced = announcements.some((start) => subject.startsWith(start));
  const repeats = isAnsweredSubject(rest);
  const isForm = repeats || isEnd(rest) || (isAnnounced && /^\s{0,3}[:：]/.test(rest));
  const sign = [
    suppress !== "" && suppress !== "none" && "X-Auto-Response-Suppress",
    mail.returnPath === "" && "the null sender",
    (has(mail, "x-loop") || has(mail, "x-ms-exchange-inbox-rules-loop")) && "a loop header",
    has(mail, "x-auto-response-id") && "X-Auto-Response-Id",
    !isAnswer && repeats && "the subject of the answered mail",
    // A person who answers keeps the subject.
    !isAnswer && isAnnounced && isForm && cited.length > 0 && "the answer to a mail under another subject",
  ].find((one) => one !== false);
  if (sign !== undefined) return { kind: "refused", reason: `an out-of-office subject and ${sign}` };
  const mayBe = isAnswer ? isForm && cited.some(isOurs) : isForm || cited.length > 0;
  return mayBe ? { kind: "held", reason: "an out-of-office subject" } : null;
}

/** Customers write "Urlaub" above a question of their own. A program writes it in front of the answered subject ("Vacation: Re:
 *  My parcel"); when it replaces the subject of the answered mail, a human decides. */
function absenceByNoun(subject: string, answers: boolean): AbsenceFinding | null {
  const rest = restAfter(subject, absenceNounsByLetter);
  if (rest === null) return null;
  const repeats = isAnsweredSubject(rest);
  if (repeats && answers) return { kind: "refused", reason: "an absence and the subject of the answered mail" };
  return repeats || (answers && isEnd(rest)) ? { kind: "held", reason: "the subject of an absence message" } : null;
}

const isAnsweredSubject = (rest: string): boolean => answerPrefix.test(rest.replace(/^[\s:：–-]{1,5}/, ""));
const isEnd = (rest: string): boolean => /^[\s.!]{0,5}$/.test(rest);

/** Removes prefixes of answers and tags ("[EXT]"), in any order. A tag that names an automatic response begins the subject:
 *  "[Auto-Reply] My parcel". */
function bareSubject(text: string): { readonly subject: string; readonly isAnswer: boolean } {
  let subject = text.replace(absenceOfNotes, "automatic reply");
  let isAnswer = false;
  for (let step = 0; step < 6; step += 1) {
    const prefix = answerPrefix.exec(subject)?.[0];
    const [whole = prefix, words = ""] = tag.exec(subject) ?? [];
    if (whole === undefined) break;
    isAnswer ||= prefix !== undefined;
    subject = subject.slice(whole.length);
    if (afterAbsence(words.trim()) === "") return { subject: `${words.trim()}: ${subject}`, isAnswer };
  }
  return { subject, isAnswer };
}

/** Returns the text after the phrase with which an out-of-office subject (lower case) begins; null for another subject. */
function afterAbsence(subject: string): string | null {
  const rest = restAfter(subject, absenceStartsByLetter);
  if (rest !== null) return rest;
  return subject.endsWith(")") && absenceStarts.some((words) => subject.endsWith(`(${words})`)) ? "" : null;
}

function restAfter(subject: string, starts: ReadonlyMap<string, readonly string[]>): string | null {
  for (const words of starts.get(subject.charAt(0)) ?? []) {
    if (!subject.startsWith(words)) continue;
    const rest = subject.slice(words.replace(/[:：]$/, "").length);
    // "Afwezig" does not begin "Afwezigheidsverzekering". Other scripts write without spaces.
    if (!/^[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]/u.test(rest)) return rest;
  }
  return null;
}

type Headers = Pick<Mail, "headers">;

/** Returns the first value of that header, lower case, without comments and parameters; "" when absent. */
const firstValue = (mail: Headers, name: string): string => allValues(mail, name)[0] ?? "";

/** Returns the values of all headers of that name, in the form of `firstValue`. */
const allValues = (mail: Headers, name: string): string[] =>
  mail.headers.filter((header) => header.name === name).map(({ value }) => normalized(value));

function normalized(value: string): string {
  const [, text = ""] = /^(?:\s*\([^()]*\))?([^;(]*)/.exec(value.slice(0, 500)) ?? [];
  return text.trim().toLowerCase();
}

/** True when the message has a header of that name. */
const has = (mail: Headers, name: string): boolean => mail.headers.some((header) => header.name === name);
