// Converts one reply to one draft. Pure: the same reply returns the same draft, and the draft always yields
// the same bytes. Agent text is Markdown. Notifications and human text quote customers and are plain text.

import type { ExternalId, Party, Reply, ReplyAttachment } from "bridgehead/contract";
import type { EmailConfig } from "../config.ts";
import { type Identity, isCitable } from "../identity.ts";
import { cleanFileName } from "../parse/cleaning.ts";
import { asciiAddress } from "../parse/headers.ts";
import { markerOf } from "../parse/marker.ts";
import type { Draft } from "./draft.ts";
import { escapeHtml, type Rendered, renderMarkdown, renderPlain } from "./markdown.ts";
import { readRendered } from "./rendering.ts";

/** Maximum number of ids in References. The first id identifies the start of the thread; mail clients
 *  use the last ones. */
const referenceLimit = 20;

/** Implements `Outbound.compose`. */
export function compose(config: EmailConfig, self: Identity, reply: Reply): readonly Draft[] {
  const to = reply.to.map(named);
  const ours = (party: Party) => self.isOwn(party.address) || to.some((one) => one.address === party.address);
  const answers = reply.answers !== null && isCitable(reply.answers) ? reply.answers : null;
  const body = bodyOf(config, reply);
  return [
    {
      v: 1,
      key: reply.key,
      envelopeFrom: self.address,
      from: { address: self.address, name: clean(config.smtp.from_name ?? reply.senderName ?? "", 200) },
      to,
      cc: config.reply === "all" ? reply.cc.filter((party) => !ours(party)).map(named) : [],
      replyTo: config.token_address ? self.tokenAddress(reply.token) : null,
      subject: subjectOf(reply),
      messageId: self.messageId(reply.key),
      inReplyTo: answers,
      references: referencesOf(reply.history, answers),
      date: reply.createdAt.toISOString(),
      automatic: automaticOf(reply),
      hops: reply.hops,
      ...body,
      attachments: (reply.attachments ?? []).map(fileOf),
    },
  ];
}

/** Returns one line without control characters, so that header values cannot inject another header. */
export function clean(text: string, limit: number): string {
  return text
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim()
    .slice(0, limit)
    .toWellFormed();
}

/** Returns the References, oldest first, `answers` last. Ids in the middle are dropped when there are
 *  too many. */
export function referencesOf(
  history: readonly ExternalId[],
  answers: ExternalId | null,
): readonly ExternalId[] {
  const chain = history.filter((id) => isCitable(id) && id !== answers);
  const all = [...new Set(answers === null ? chain : [...chain, answers])];
  if (all.length <= referenceLimit) return all;
  return [...all.slice(0, 1), ...all.slice(-(referenceLimit - 1))];
}

function automaticOf(reply: Reply): Draft["automatic"] {
  if (reply.byHuman) return "no";
  return reply.kind === "notice" || reply.answers === null ? "auto-generated" : "auto-replied";
}

/** Returns the subject of the answered message with "Re: " in front. A prefix that is already there is
 *  kept, in any of the known languages. */
function subjectOf(reply: Reply): string {
  const subject = clean(reply.subject ?? "", 900);
  if (reply.answers === null) return subject;
  const answered = /^(re|aw|sv|vs|antw|odp|rif|res|ynt|回复|答复|返信)(\[\d+\])?\s?[:：]/iu;
  return answered.test(subject) ? subject : `Re: ${subject}`.trim();
}

/** Inline rendering runs inside the core's transaction. Longer Markdown arrives rendered by `prepare`,
 *  or is sent as plain text. */
const inlineLimit = 2000;

function bodyOf(config: EmailConfig, reply: Reply): { text: string; html: string } {
  const marker = config.body_marker ? markerOf(reply.token) : null;
  const [introduction, signature] = [reply.introduction, reply.signature].map((words) =>
    words?.trim() ? renderMarkdown(words.trim(), inlineLimit) : null,
  );
  const answer = reply.text.trim() === "" ? null : answerOf(reply);
  const written = [introduction, answer].filter((part) => part != null);
  const text = [
    ...written.map((part) => part.text),
    ...(signature == null ? [] : [`-- \n${signature.text}`]),
    ...(marker === null ? [] : [marker]),
  ].join("\n\n");
  const html = [
    ...written.map((part) => `<div>${part.html}</div>`),
    ...(signature == null
      ? []
      : [`<div class="signature" style="color:#555">-- <br>${signature.html}</div>`]),
    ...(marker === null ? [] : [`<div style="color:#999;font-size:11px">${escapeHtml(marker)}</div>`]),
  ].join("\n");
  return { text: `${text.toWellFormed()}\n`, html: html.toWellFormed() };
}

function answerOf({ text, plain, rendered }: Reply): Rendered {
  if (plain) return renderPlain(text.trim());
  return readRendered(rendered) ?? renderMarkdown(text.trim(), inlineLimit);
}

function named(party: Party): { address: string; name: string } {
  return { address: asciiAddress(clean(party.address, 320)), name: clean(party.name ?? "", 200) };
}

/** An attached message must not be re-encoded (RFC 2046, 5.2.1), and a multipart needs its boundary.
 *  Both are sent as `application/octet-stream` and so arrive unchanged. */
const unencodable = /^(?:message|multipart)\//i;

function fileOf({ name, mediaType, size, ref }: ReplyAttachment): Draft["attachments"][number] {
  const plain = /^[\w.+-]{1,80}\/[\w.+-]{1,120}$/.test(mediaType) && !unencodable.test(mediaType);
  return {
    name: cleanFileName(name, "attachment"),
    mediaType: plain ? mediaType.toLowerCase() : "application/octet-stream",
    size,
    ref,
  };
}
