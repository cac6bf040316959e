// Converts raw bytes to a `Mail`. All functions run in the worker.

import { bodyOf } from "./body.ts";
import { withoutMarks } from "./cleaning.ts";
import { digestOf } from "./digest.ts";
import { forwardedIn, hasForwardLine, isForwardSubject, isReplySubject } from "./forward.ts";
import { cleanAddress, dateOf, mailboxesOf, messageIdOf, messageIdsOf, repaired, textOf } from "./headers.ts";
import type { Mail } from "./mail.ts";
import { domainOf, findMarkers, keyIn, withoutPlus } from "./marker.ts";
import { reportOf } from "./report.ts";
import { calendarMethodOf, sealedIn } from "./sealed.ts";
import { type HeaderField, headerOf, type Part, readTree, walk } from "./tree.ts";
import { carriesForward, isWordless, type TrimOptions, trimReply } from "./trim.ts";

/** Headers in which servers record the actual recipient of a message. */
const deliveryHeaders = new Set([
  "delivered-to",
  "x-original-to",
  "envelope-to",
  "x-envelope-to",
  "x-forwarded-to",
]);
/** Characters of an attached message that are shown in the text. */
const maxCarried = 50_000;
const maxCarriedMails = 3;

/** Parses one message. Throws an error when it exceeds the limits of the MIME parser. `own`: the
 *  channel's addresses, used to recognize responses to our messages. */
export async function readMail(raw: Uint8Array, own: readonly string[]): Promise<Mail> {
  const root = await readTree(raw);
  const headers = repaired(root.headers, raw, charsetHint(root));
  const report = reportOf(root);
  const subject = textOf(headerOf(headers, "subject"));
  const ids = idsOf(headers);
  const people = peopleOf(headers);
  const byPrefix = report === null && isForwardSubject(subject);
  const options = trimOptions({ root, subject, ...ids, ...people }, own, byPrefix);
  const read = bodyOf(root, options);
  // A forward without the subject prefix is read again, so that its HTML is not marked as a quote.
  const inside = !byPrefix && report === null && carriesForward(read.text, options);
  const body = inside ? bodyOf(root, { ...options, relation: "forward" }) : read;
  const carried = report === null ? await carriedText(body.carried) : null;
  const fullText = [body.text, carried?.text ?? ""].filter((text) => text !== "").join("\n\n");
  const forward = byPrefix || carried !== null || (report === null && hasForwardLine(body.text));
  const inText = forward && carried === null ? await forwardedIn(subject, body.text) : null;
  const forwards = byPrefix || inside || carried !== null;
  const { inlineAnswers } = body;
  const relation = forwards ? "forward" : options.relation;
  const text = withoutMarks(trimReply(fullText, { ...options, relation, inlineAnswers }).text);
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
    wordless: body.attachments.length > 0 && !forwards && !inlineAnswers && isWordless(fullText),
    fullText: withoutMarks(fullText),
    markers: body.markers,
    forwarded: carried?.forwarded ?? inText,
    attachments: body.attachments,
    report,
    contentType: root.mediaType,
    calendarMethod: calendarMethodOf(root, text),
    sealed: sealedIn(root, text),
  };
}

type Head = Pick<Mail, "subject" | "inReplyTo" | "references" | "from" | "to" | "cc" | "deliveredTo"> & {
  readonly root: Part;
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
    isOwn: (address) =>
      addresses.has(address) || addresses.has(withoutPlus(address)[0]) || senders.has(address),
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
function hasMarker(root: Part): boolean {
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
    inReplyTo: messageIdsOf(headerOf(headers, "in-reply-to"), 20),
    references: messageIdsOf(headerOf(headers, "references")),
  };
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

/** Returns "" for the null sender; a value that is not an address counts as absent. */
function returnPathOf(value: string): string | null {
  if (/^(?:<\s{0,5}>)?$/.test(value.trim())) return "";
  const address = cleanAddress(value);
  return address === "" ? null : address;
}

function deliveredTo(headers: readonly HeaderField[]): string[] {
  const found = headers
    .filter((field) => deliveryHeaders.has(field.name))
    .flatMap((field) => field.value.slice(0, 5000).split(","));
  return [...new Set(found.map(cleanAddress).filter((address) => address !== ""))].slice(0, 50);
}

/** Returns the charset of the text, which is the best guess for raw headers. */
function charsetHint(root: Part): string | null {
  for (const part of walk(root)) {
    const charset = part.parameters["charset"];
    if (charset !== undefined) return charset;
  }
  return null;
}

/** Returns the text of attached messages: sender, subject and text below a line that announces the
 *  forward. */
async function carriedText(parts: readonly Part[]) {
  const texts: string[] = [];
  let forwarded: Mail["forwarded"] = null;
  for (const part of parts.slice(0, maxCarriedMails)) {
    const root = await readTree(part.content);
    const from = mailboxesOf(root.headers, "from")[0] ?? null;
    const subject = textOf(headerOf(root.headers, "subject"));
    forwarded ??= { from, subject: subject === "" ? null : subject };
    const by =
      from === null ? "" : `From: ${from.name === "" ? from.address : `${from.name} <${from.address}>`}\n`;
    const text = bodyOf(root, { relation: "forward" }).text.slice(0, maxCarried);
    texts.push(`---------- Forwarded message ----------\n${by}Subject: ${subject}\n\n${text}`);
  }
  return texts.length === 0 ? null : { text: texts.join("\n\n"), forwarded };
}
