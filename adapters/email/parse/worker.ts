// The parser's worker thread. Converts raw bytes to a `Mail`, checks its sender when requested, and responds to each job
// with the message or with its events. The check waits for DNS while other messages are parsed.

import { hash } from "node:crypto";
import { parentPort, workerData } from "node:worker_threads";
import { eventsOf } from "../events.ts";
import { authenticate } from "./auth/result.ts";
import { calendarIn, withWritten } from "./calendar.ts";
import { decodeText } from "./charsets.ts";
import { carriedText, forwardedIn } from "./forwards.ts";
import {
  boundedText,
  cleanAddress,
  dateOf,
  domainOf,
  findMarkers,
  headerOf,
  isBroken,
  isDaemon,
  isForwardSubject,
  isReplySubject,
  keyIn,
  mailboxesOf,
  messageIdOf,
  messageIdsOf,
  textOf,
  withoutMarks,
  withoutPlus,
} from "./headers.ts";
import { htmlToText } from "./html/text.ts";
import { isMailServer } from "./machine/bounce.ts";
import type { Mail, ParseJob, ParseResponse, ParseResult, ReadResult, SenderAuth } from "./mail.ts";
import { bodyOf, type HeaderField, isOnlyText, type MimePart, readTree, walk } from "./mime.ts";
import { isForwardLine } from "./quotes/lines.ts";
import { replyPrefixes } from "./quotes/phrases.ts";
import { isWordless, type TrimOptions, trimReply } from "./quotes/trim.ts";
import { repaired } from "./raw-headers.ts";
import { opened, reactionIn, reportOf, sealedIn } from "./special-parts.ts";

/** Messages are parsed one after the other. Concurrent parsing would share the CPU time and add up the memory. */
let last: Promise<void> = Promise.resolve();

// Other threads only import functions of this file.
if (workerData === "mail-parser") {
  parentPort?.on("message", (jobs: readonly ParseJob[]) => {
    for (const job of jobs) last = last.then(() => work(job));
  });
  post({ id: 0, kind: "ready" });
}

async function work(job: ParseJob): Promise<void> {
  const { id, raw, context } = job;
  try {
    const mail = await readMail(raw, context.own ?? []);
    if (context.senderAuth.mode === "off") return respond(job, mail, null);
    post({ id, kind: "checking" });
    void judge(job, mail);
  } catch (error) {
    fail(id, error);
  }
}

/** The caller does not wait for this function, because DNS responses can be slow. */
async function judge(job: ParseJob, mail: Mail): Promise<void> {
  try {
    respond(job, mail, await authenticate(mail, job.raw, job.context.senderAuth));
  } catch (error) {
    fail(job.id, error);
  }
}

function respond({ id, request }: ParseJob, mail: Mail, auth: SenderAuth | null): void {
  const result: ParseResult | ReadResult =
    request === null ? { ok: true, mail, auth } : { ok: true, understanding: eventsOf(mail, auth, request) };
  post({ id, kind: "done", result }, transferable(mail));
}

function fail(id: number, error: unknown): void {
  const reason = (error instanceof Error ? error.message : String(error)).slice(0, 300);
  post({ id, kind: "done", result: { ok: false, code: "malformed", reason } });
}

function post(answer: ParseResponse, transfer: readonly ArrayBuffer[] = []): void {
  parentPort?.postMessage(answer, transfer);
}

/** Attachments are transferred without a copy. Parts share no buffer, but a buffer must not be listed twice. */
function transferable(mail: Mail): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  for (const { bytes } of mail.attachments) if (bytes.buffer instanceof ArrayBuffer) buffers.add(bytes.buffer);
  return [...buffers];
}

/** Headers in which servers record the actual recipient of a message. */
const deliveryHeaders = new Set(["delivered-to", "x-original-to", "envelope-to", "x-envelope-to", "x-forwarded-to"]);
/** Parses one message. Throws an error when it exceeds the limits of the MIME parser. `own`: the
 *  channel's addresses, used to recognize responses to our messages. */
export async function readMail(raw: Uint8Array, own: readonly string[]): Promise<Mail> {
  const tree = await readTree(raw);
  const onlyText = isOnlyText(tree);
  const { root, certifiedAuthor } = onlyText ? { root: tree, certifiedAuthor: null } : await opened(tree);
  const headers = root.headers.some(isBroken) ? repaired(root, raw) : root.headers;
  const subject = textOf(headerOf(headers, "subject"));
  const ids = idsOf(headers);
  const people = peopleOf(headers);
  const report = onlyText ? null : reportOf(root, isFromServer({ ...people, headers }));
  const byPrefix = report === null && isForwardSubject(subject);
  const options = trimOptions({ root, subject, ...ids, ...people }, own, byPrefix);
  const read = bodyOf(root, options);
  const trimmed = trimReply(read.text, { ...options, inlineAnswers: read.inlineAnswers });
  // A forward without the subject prefix is read again, so that its HTML is not marked as a quote.
  const inside = report === null && trimmed.forwards;
  const body = inside ? bodyOf(root, { ...options, relation: "forward" }) : read;
  const carried = report === null && body.carried.length > 0 ? await carriedText(body.carried) : null;
  const fullText = [body.text, carried?.text ?? ""].filter((text) => text !== "").join("\n\n");
  const inText =
    carried === null && (byPrefix || (report === null && hasForwardLine(body.text)))
      ? await forwardedIn(subject, body.text)
      : null;
  const forwards = byPrefix || inside || carried !== null;
  const reaction = onlyText ? null : reactionIn(root);
  const words = withoutMarks(forwards ? fullText.trim() : trimmed.text);
  const calendar = onlyText ? null : calendarIn(root, words);
  const spoken = calendar === null ? words : withWritten(words, calendar.written);
  // The form in which phones send a reaction as a text message.
  const text = reaction === null ? spoken : `${reaction} to “${subject}”`;
  return {
    digest: digestOf({
      messageId: messageIdOf(headerOf(headers, "message-id")),
      date: headerOf(headers, "date"),
      from: people.from.map((one) => one.address),
      subject,
      root,
    }),
    ...ids,
    ...people,
    subject,
    date: dateOf(headerOf(headers, "date")),
    headers,
    text,
    // Only a message with attachments can be without text.
    wordless:
      body.attachments.length > 0 &&
      !forwards &&
      !body.inlineAnswers &&
      !calendar?.written.length &&
      isWordless(fullText),
    fullText: withoutMarks(fullText),
    isCut: body.isCut || carried?.isCut === true,
    markers: body.markers,
    certifiedAuthor,
    forwardedFrom: carried === null ? inText : carried.from,
    attachments: body.attachments,
    report,
    calendar,
    sealed: onlyText && !text.includes("-----BEGIN PGP MESSAGE-----") ? null : sealedIn(root, text),
  };
}

/** True for the null sender and for mail servers. Some servers deliver the null sender as `mailer-daemon@...`. */
const isFromServer = (head: Pick<Mail, "from" | "headers" | "returnPath">): boolean =>
  head.returnPath === "" || isDaemon(head.returnPath ?? "") || isMailServer(head);

/** True for a forward by its body: a line of the bounded text announces the forwarded message, before
 *  any response to another message could. */
const hasForwardLine = (text: string): boolean => boundedText(text).split("\n").some(isForwardLine);

type Head = Pick<Mail, "subject" | "inReplyTo" | "references" | "from" | "to" | "cc" | "deliveredTo"> & {
  readonly root: MimePart;
};

/** Determines what the message answers. It answers one of our messages when it names a Message-ID that
 *  we created. When a relay has replaced our Message-ID, it must be a response and have our marker in
 *  its body or our token in its address. */
function trimOptions(head: Head, own: readonly string[], forward: boolean): TrimOptions {
  const addresses = new Set(own);
  const domains = new Set(own.map(domainOf));
  const ids = [...head.inReplyTo, ...head.references];
  const answers = ids.length > 0 || isReplySubject(head.subject);
  const isOurs = () =>
    ids.some((id) => keyIn(id, domains) !== null) ||
    (answers && own.length > 0 && (hasToken(head, addresses) || hasMarker(head.root)));
  const senders = new Set(head.from.map((one) => one.address));
  return {
    relation: forward ? "forward" : isOurs() ? "ours" : answers ? "reply" : "new",
    isOwn: (address) => addresses.has(address) || addresses.has(withoutPlus(address)[0]) || senders.has(address),
    names: namesOf(head.from[0] ?? null),
  };
}

function hasToken({ to, cc, deliveredTo }: Head, own: ReadonlySet<string>): boolean {
  return [...to, ...cc]
    .map((one) => one.address)
    .concat(deliveredTo)
    .some((address) => {
      const [bare, plus] = withoutPlus(address);
      return plus !== null && own.has(bare) && /^[a-z0-9]{10,64}$/.test(plus);
    });
}

/** Searches the bytes of the text parts; the marker is ASCII and survives most encodings. */
function hasMarker(root: MimePart): boolean {
  for (const part of walk(root)) {
    if (!part.mediaType.startsWith("text/")) continue;
    const bytes = Buffer.from(part.content.buffer, part.content.byteOffset, part.content.byteLength);
    if (bytes.includes("[ref:bh-") && findMarkers(bytes.toString("latin1")).length > 0) return true;
  }
  return false;
}

/** Returns the parts of the sender's name, which distinguish a signature from other text. */
function namesOf(sender: Mail["from"][number] | null): string[] {
  if (sender === null) return [];
  const local = sender.address.slice(0, Math.max(0, sender.address.indexOf("@")));
  const words = `${sender.name} ${local}`
    .toLowerCase()
    .slice(0, 200)
    .split(/[^\p{L}\p{M}]+/u);
  return [...new Set(words.filter((word) => word.length > 2))].slice(0, 20);
}

function idsOf(headers: readonly HeaderField[]) {
  return {
    messageId: messageIdOf(headerOf(headers, "message-id")),
    inReplyTo: citedIds(headers, "in-reply-to", 20),
    references: citedIds(headers, "references", 100),
  };
}

/** Returns the newest ids of In-Reply-To or References. Some programs write no angle brackets. */
function citedIds(headers: readonly HeaderField[], name: string, max: number): string[] {
  const value = headerOf(headers, name) ?? "";
  if (value.includes("<")) return messageIdsOf(value, max);
  const bare = value.split(/[\s,;()"]+/).filter((word) => word.includes("@"));
  return messageIdsOf(bare.map((id) => `<${id}>`).join(" "), max);
}

function peopleOf(headers: readonly HeaderField[]) {
  const returnPath = headerOf(headers, "return-path");
  return {
    from: mailboxesOf(headers, "from"),
    fromFields: headers.filter((field) => field.name === "from").length,
    sender: mailboxesOf(headers, "sender")[0] ?? null,
    replyTo: mailboxesOf(headers, "reply-to"),
    to: mailboxesOf(headers, "to"),
    cc: mailboxesOf(headers, "cc"),
    deliveredTo: deliveredTo(headers),
    returnPath: returnPath === null ? null : returnPathOf(returnPath),
  };
}

/** Returns "" for the null sender, for which Postfix gives MAILER-DAEMON to other programs (pipe(8), `null_sender`). A value
 *  that is not an address counts as absent. */
function returnPathOf(value: string): string | null {
  if (/^<?\s{0,5}(?:mailer-daemon)?\s{0,5}>?$/i.test(value.trim())) return "";
  const address = cleanAddress(value);
  return address === "" ? null : address;
}

function deliveredTo(headers: readonly HeaderField[]): string[] {
  const found = headers
    .filter((field) => deliveryHeaders.has(field.name))
    .flatMap((field) => field.value.slice(0, 5000).split(","));
  return [...new Set(found.map(cleanAddress).filter((address) => address !== ""))].slice(0, 50);
}

/** Bytes of one text part, and text parts of one message, that the digest covers. */
const maxPartBytes = 1_000_000;
const maxParts = 20;

export interface Identified {
  /** With angle brackets; null when the message has none. */
  readonly messageId: string | null;
  /** The Date header as written; null when the message has none. */
  readonly date: string | null;
  readonly from: readonly string[];
  readonly subject: string;
  readonly root: MimePart;
}

/** Returns the SHA-256 digest in hex. Runs in time linear in the size of the message. */
export function digestOf({ messageId, date, from, subject, root }: Identified): string {
  const fields: (readonly [string, string])[] = [
    ["message-id", messageId ?? ""],
    ["date", String(dateOf(date) ?? date?.trim() ?? "")],
    ["words", letters(withoutFooter(textIn(root)))],
  ];
  if (messageId === null) {
    // Nothing else names the message, so every field that can distinguish two messages is covered as it is.
    for (const address of from) fields.push(["from", address]);
    fields.push(["subject", subject]);
    for (const leaf of leaves(root)) if (!isText(leaf)) fields.push(["file", digestOfFile(leaf)]);
  } else {
    // Scanners and forms use one Message-ID for all their messages, and the same text.
    fields.push(["subject", subjectWords(subject)]);
    for (const file of filesIn(root)) fields.push(["file", digestOfFile(file)]);
  }
  return hash("sha256", fields.map(([name, value]) => `${name} ${value.length}\n${value}`).join(""), "hex");
}

/** Returns the letters of a subject without tags ("[Talk]") and prefixes of answers: lists add tags before and after "Re:".
 *  A subject of tags only is returned with them. */
function subjectWords(subject: string): string {
  let rest = subject;
  for (let step = 0; step < 10; step++) {
    const prefix = /^\s{0,5}([^\s:：[\]]{1,20})\s{0,5}[:：]/.exec(rest);
    const isAnswer = replyPrefixes.has(prefix?.[1]?.toLowerCase() ?? "");
    const cut = (isAnswer ? prefix?.[0] : undefined) ?? /^\s{0,5}\[[^\]]{1,60}\]/.exec(rest)?.[0];
    if (cut === undefined) break;
    rest = rest.slice(cut.length);
  }
  return letters(rest.slice(0, 1000)) || letters(subject.slice(0, 1000));
}

/** Returns the files that every copy of a message has. Lists that remove HTML remove the alternatives of the text and the
 *  pictures of the HTML; a footer breaks a signature, which some lists remove. */
function filesIn(part: MimePart): MimePart[] {
  if (part.multipart === null) return isText(part) ? [] : [part];
  if (part.multipart === "alternative") return [];
  if (part.multipart === "signed") return part.children.slice(0, 1).flatMap(filesIn);
  const isPicture = (one: MimePart) => part.multipart === "related" && one.mediaType.startsWith("image/");
  return part.children.filter((one) => !isPicture(one)).flatMap(filesIn);
}

/** Servers change the line ends of text. */
function digestOfFile({ mediaType, content }: MimePart): string {
  if (!/^(?:text|message)\//.test(mediaType)) return hash("sha256", content, "hex");
  const text = Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString("latin1");
  return hash("sha256", text.replaceAll("\r", "").trimEnd(), "hex");
}

/** Returns letters, digits and pictographs. These survive rewrapping, `>From`, other quotes and format=flowed. Of very
 *  long runs of combining marks only the first are used, because normalization sorts a run in quadratic time. */
function letters(text: string): string {
  if (/^[\x00-\x7f]*$/.test(text)) return text.replace(/[^0-9A-Za-z]+/g, "");
  return text
    .replace(/(\p{M}{30})\p{M}+/gu, "$1")
    .normalize("NFKC")
    .replace(/[^\p{L}\p{N}\p{M}\p{Extended_Pictographic}]+/gu, "");
}

/** Returns the author's text. Of alternatives it uses the plain one, which lists keep when they remove HTML. */
function textIn(part: MimePart): string {
  const texts: string[] = [];
  const collect = (one: MimePart): void => {
    if (texts.length >= maxParts) return;
    if (one.multipart === "alternative") {
      for (const child of one.children) {
        if (child.mediaType !== "text/plain") continue;
        const text = decodedText(child);
        if (text.trim() === "") continue;
        if (isText(child)) texts.push(text);
        return;
      }
      const best = one.children.find((child) => leaves(child).some(isText));
      if (best !== undefined) collect(best);
    } else if (one.multipart !== null) for (const child of one.children) collect(child);
    else if (isText(one)) texts.push(decodedText(one));
  };
  collect(part);
  return texts.join("\n");
}

function decodedText(part: MimePart): string {
  const text = decodeText(part.content.subarray(0, maxPartBytes), part.parameters["charset"] ?? null);
  return part.mediaType === "text/html" ? htmlToText(text, { relation: "forward" }).text : text;
}

const isText = (part: MimePart): boolean =>
  (part.mediaType === "text/plain" || part.mediaType === "text/html") &&
  part.disposition !== "attachment" &&
  part.fileName === null;

const leaves = (part: MimePart): MimePart[] => (part.multipart === null ? [part] : part.children.flatMap(leaves));

const footerLines = 25;
const maxFooters = 3;
const delimiter = /^\s{0,4}(?:--|[-_*=~]{3,})\s*$/;
const footerWords =
  /unsubscri|subscribed|subscription|mailing[ -]?list|mailman|listinfo|listserv|sympa|googlegroups|groups\.google|google groups|groups\.io|yahoogroups|-leave@|-request@|leave the list|abmelde|abbestell|austragen|abonniert|mailingliste|désabonn|désinscri|liste de diffusion|darse de baja|cancelar (?:la|su|tu) suscripción|lista de (?:correo|distribución)|disiscri|annulla(?:re)? l'iscrizione|afmeld|uitschrijv|cancelar (?:a )?inscrição|wypis/i;

/** Removes the blocks that lists append: a delimiter line, then up to the end a few lines with typical list text. */
function withoutFooter(text: string): string {
  let lines = text.trimEnd().split(/\r?\n/);
  for (let round = 0; round < maxFooters; round++) {
    const from = Math.max(0, lines.length - footerLines);
    let at = -1;
    for (let index = lines.length - 1; index >= from; index--) {
      if (!delimiter.test((lines[index] ?? "").slice(0, 200))) continue;
      const tail = lines.slice(index + 1).join(" ");
      // A delimiter may also end the footer, or occur inside it.
      if (footerWords.test(tail.slice(0, 5000))) at = index;
      else if (tail.trim() !== "") break;
      if (at >= 0) break;
    }
    if (at < 0) return lines.join("\n");
    lines = lines.slice(0, at).join("\n").trimEnd().split("\n");
  }
  return lines.join("\n");
}
