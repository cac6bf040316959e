// Raw bytes to a Mail. Everything in here runs in the worker.

import { bodyOf } from "./body.ts";
import { digestOf } from "./digest.ts";
import { forwardedIn, hasForwardLine, isForwardSubject } from "./forward.ts";
import { cleanAddress, dateOf, mailboxesOf, messageIdOf, messageIdsOf, repaired, textOf } from "./headers.ts";
import type { Mail } from "./mail.ts";
import { reportOf } from "./report.ts";
import { type HeaderField, headerOf, type Part, readTree, walk } from "./tree.ts";
import { isWordless, trimReply } from "./trim.ts";

/** Where servers note to whom a mail really went. */
const deliveryHeaders = new Set([
  "delivered-to",
  "x-original-to",
  "envelope-to",
  "x-envelope-to",
  "x-forwarded-to",
]);
/** Characters of a carried mail that are shown in the text. */
const maxCarried = 50_000;
const maxCarriedMails = 3;

/** Parses one mail. Throws an Error when it is beyond the limits of the MIME parser. */
export async function readMail(raw: Uint8Array): Promise<Mail> {
  const root = await readTree(raw);
  const headers = repaired(root.headers, raw, charsetHint(root));
  const report = reportOf(root);
  const subject = textOf(headerOf(headers, "subject"));
  const byPrefix = report === null && isForwardSubject(subject);
  const body = bodyOf(root, byPrefix);
  const carried = report === null ? await carriedText(body.carried) : null;
  const fullText = [body.text, carried?.text ?? ""].filter((text) => text !== "").join("\n\n");
  const forward = byPrefix || carried !== null || (report === null && hasForwardLine(body.text));
  const inText = forward && carried === null ? await forwardedIn(subject, body.text) : null;
  const forwards = byPrefix || carried !== null;
  return {
    digest: digestOf(raw),
    ...idsOf(headers),
    ...peopleOf(headers),
    subject,
    date: dateOf(headerOf(headers, "date")),
    headers,
    text: trimReply(fullText, forwards).text,
    // Only who has attached something may have had nothing to say.
    wordless: body.attachments.length > 0 && !forwards && isWordless(fullText),
    fullText,
    markers: body.markers,
    forwarded: carried?.forwarded ?? inText,
    attachments: body.attachments,
    report,
    contentType: root.mediaType,
  };
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

/** "" is the null sender; what is no address is as good as absent. */
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

/** The charset the text is in is the best guess for raw headers. */
function charsetHint(root: Part): string | null {
  for (const part of walk(root)) {
    const charset = part.parameters["charset"];
    if (charset !== undefined) return charset;
  }
  return null;
}

/** A mail forwarded as a mail: its sender, its subject and its text under a line that says so. */
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
    const text = bodyOf(root, true).text.slice(0, maxCarried);
    texts.push(`---------- Forwarded message ----------\n${by}Subject: ${subject}\n\n${text}`);
  }
  return texts.length === 0 ? null : { text: texts.join("\n\n"), forwarded };
}
