// Computes a message's fingerprint: the same for every copy of one message, independent of its route.
//
// A mailing list or forwarder adds Received, Delivered-To, List-* and X- headers, rewrites From, Sender,
// Reply-To and Subject, appends a footer, adds or drops a MIME part and chooses another transfer encoding.
// It keeps Message-ID, Date and the author's text, so the digest covers these. Not recognized: lists that
// convert HTML to plain text, and text that a gateway adds on one route only without the marks of a list
// footer. Such a copy is not deduplicated and gets a separate response.

import { createHash } from "node:crypto";
import { decodeText } from "./charset.ts";
import { dateOf } from "./headers.ts";
import { htmlToText } from "./html.ts";
import type { Part } from "./tree.ts";

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
  readonly root: Part;
}

/** Returns the SHA-256 digest in hex. Runs in time linear in the size of the message. */
export function digestOf({ messageId, date, from, subject, root }: Identified): string {
  const hash = createHash("sha256");
  const add = (name: string, value: string | Uint8Array) => {
    hash.update(`${name} ${value.length}\n`).update(value);
  };
  add("message-id", messageId ?? "");
  add("date", String(dateOf(date) ?? date?.trim() ?? ""));
  add("words", letters(withoutFooter(textIn(root))));
  if (messageId !== null) return hash.digest("hex");
  // Without a Message-ID the digest covers every field that can distinguish two messages.
  for (const address of from) add("from", address);
  add("subject", subject);
  for (const leaf of leaves(root)) if (!isText(leaf)) add("file", leaf.content);
  return hash.digest("hex");
}

/** Returns letters, digits and pictographs. These survive rewrapping, `>From`, other quotes and
 *  format=flowed. Of very long runs of combining marks only the first are used, because normalization
 *  sorts a run in quadratic time. */
function letters(text: string): string {
  return (
    text
      .replace(/(\p{M}{30})\p{M}+/gu, "$1")
      .normalize("NFKC")
      .match(/[\p{L}\p{N}\p{M}\p{Extended_Pictographic}]+/gu) ?? []
  ).join("");
}

/** Returns the author's text. Of alternatives it uses the plain one, which lists keep when they remove
 *  HTML. */
function textIn(part: Part): string {
  const texts: string[] = [];
  const collect = (one: Part): void => {
    if (texts.length >= maxParts) return;
    if (one.multipart === "alternative") {
      const plain = one.children.find(
        (child) => child.mediaType === "text/plain" && textOf(child).trim() !== "",
      );
      const best = plain ?? one.children.find((child) => leaves(child).some(isText));
      if (best !== undefined) collect(best);
    } else if (one.multipart !== null) for (const child of one.children) collect(child);
    else if (isText(one)) texts.push(textOf(one));
  };
  collect(part);
  return texts.join("\n");
}

function textOf(part: Part): string {
  const text = decodeText(part.content.subarray(0, maxPartBytes), part.parameters["charset"] ?? null);
  return part.mediaType === "text/html" ? htmlToText(text, { relation: "forward" }).text : text;
}

const isText = (part: Part): boolean =>
  (part.mediaType === "text/plain" || part.mediaType === "text/html") &&
  part.disposition !== "attachment" &&
  part.fileName === null;

const leaves = (part: Part): Part[] => (part.multipart === null ? [part] : part.children.flatMap(leaves));

const footerLines = 25;
const maxFooters = 3;
const delimiter = /^\s{0,4}(?:--|[-_*=~]{3,})\s*$/;
const footerWords =
  /unsubscri|subscribed|subscription|mailing[ -]?list|mailman|listinfo|listserv|sympa|googlegroups|groups\.google|google groups|groups\.io|yahoogroups|-leave@|-request@|leave the list|abmelde|abbestell|austragen|abonniert|mailingliste|désabonn|désinscri|liste de diffusion|darse de baja|cancelar (?:la|su|tu) suscripción|lista de (?:correo|distribución)|disiscri|annulla(?:re)? l'iscrizione|afmeld|uitschrijv|cancelar (?:a )?inscrição|wypis/i;

/** Removes the blocks that lists append: a delimiter line, then up to the end a few lines with typical
 *  list text. */
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
