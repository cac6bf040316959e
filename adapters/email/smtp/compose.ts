// From a reply to the bytes of its message (RFC 5322). A reply becomes one stored draft, and a draft always yields
// the same bytes, so every attempt and the copy in Sent are identical. Pure. Agent text is Markdown. Notifications
// and human text quote customers and are plain text.

import type { ExternalId, Party, Reply, ReplyAttachment } from "bridgehead/contract";
import { encode as base64, wrap as wrapBase64 } from "nodemailer/lib/base64";
import MailComposer from "nodemailer/lib/mail-composer";
import type MimeNode from "nodemailer/lib/mime-node";
import { encode as quotedPrintable, wrap as wrapQuotedPrintable } from "nodemailer/lib/qp";
import * as z from "zod";
import type { EmailConfig } from "../config.ts";
import { asciiAddress, cleanFileName, type Identity, surrogateEnd } from "../parse/headers.ts";
import { escapeHtml, type Rendered, readRendered, renderMarkdown, renderPlain } from "./markdown.ts";

/** Maximum number of ids in References. The first id identifies the start of the thread; mail clients
 *  use the last ones. */
const referenceLimit = 20;

/** Implements `Outbound.compose`. */
export function compose(config: EmailConfig, self: Identity, reply: Reply): readonly EmailDraft[] {
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
function clean(text: string, limit: number): string {
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

/** False for ids that other servers do not know. */
function isCitable(id: string): boolean {
  return /^<[^<>\s]{1,900}>$/.test(id) && !id.endsWith(surrogateEnd);
}

function automaticOf(reply: Reply): EmailDraft["automatic"] {
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
  // `findMarkers` recognizes it in answers.
  const marker = config.body_marker ? `[ref:bh-${reply.token}]` : null;
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

function fileOf({ name, mediaType, size, ref }: ReplyAttachment): EmailDraft["attachments"][number] {
  const plain = /^[\w.+-]{1,80}\/[\w.+-]{1,120}$/.test(mediaType) && !unencodable.test(mediaType);
  return {
    name: cleanFileName(name, "attachment"),
    mediaType: plain ? mediaType.toLowerCase() : "application/octet-stream",
    size,
    ref,
  };
}

const party = z.strictObject({ address: z.string(), name: z.string() });

const schema = z.strictObject({
  v: z.literal(1),
  /** The send key, which identifies the draft in the envelope and in boundaries. */
  key: z.string(),
  envelopeFrom: z.string(),
  from: party,
  to: z.array(party),
  cc: z.array(party),
  replyTo: z.string().nullable(),
  subject: z.string(),
  /** With angle brackets, as are the following ids. */
  messageId: z.string(),
  inReplyTo: z.string().nullable(),
  references: z.array(z.string()),
  /** ISO 8601. */
  date: z.string(),
  /** The Auto-Submitted header (RFC 3834): responses use `auto-replied`; outbound conversations and
   *  notifications use `auto-generated`; text by a person uses `no`. */
  automatic: z.enum(["auto-replied", "auto-generated", "no"]),
  hops: z.int(),
  text: z.string(),
  html: z.string(),
  /** The core stores the bytes under `ref`. */
  attachments: z.array(
    z.strictObject({ name: z.string(), mediaType: z.string(), size: z.int(), ref: z.string() }),
  ),
});

type Plain<T> = T extends (infer Item)[]
  ? readonly Plain<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Plain<T[Key]> }
    : T;

export type EmailDraft = Plain<z.output<typeof schema>>;

/** Throws an error on any format that this version did not write. */
export function readDraft(stored: unknown): EmailDraft {
  const parsed = schema.safeParse(stored);
  if (!parsed.success) throw new Error(`reading a stored draft failed: ${parsed.error.message}`);
  return parsed.data;
}

/** Longer texts are encoded by nodemailer's streams, slice by slice. In characters. */
const streamedLength = 20_000;

/** The message has CRLF line ends. `files`: the bytes of the draft's attachments, in their order. */
export async function messageBytes(draft: EmailDraft, files: readonly Uint8Array[] = []): Promise<Buffer> {
  const root = compiled(draft, files);
  const isShort = draft.attachments.length === 0 && draft.text.length + draft.html.length <= streamedLength;
  if (!isShort) return root.build();
  // The streams cost several times as much as the encoding. The result is the same.
  const text = written(root).replace(/\r?\n/g, "\r\n");
  return Buffer.from(text.endsWith("\n") ? text : `${text}\r\n`);
}

/** Returns the text of a node whose content is text, with the line ends of that text. */
function written(node: MimeNode): string {
  const encoding = node.getTransferEncoding();
  const parts = [`${node.buildHeaders()}\r\n\r\n`];
  if (typeof node.content === "string") parts.push(encoded(node.content, encoding));
  if (node.multipart) {
    node.childNodes.forEach((child, index) => {
      parts.push(`${index === 0 ? "" : "\r\n"}--${node.boundary}\r\n`, written(child));
    });
    parts.push(`\r\n--${node.boundary}--\r\n`);
  }
  return parts.join("");
}

function encoded(content: string, encoding: string | false): string {
  if (encoding === "quoted-printable") return wrapQuotedPrintable(quotedPrintable(content));
  return encoding === "base64" ? wrapBase64(base64(content)) : content;
}

function compiled(draft: EmailDraft, files: readonly Uint8Array[]): MimeNode {
  const composer = new MailComposer({
    from: mailbox(draft.from),
    to: draft.to.map(mailbox),
    cc: draft.cc.map(mailbox),
    ...(draft.replyTo === null ? {} : { replyTo: clean(draft.replyTo, 400) }),
    subject: clean(draft.subject, 1000),
    messageId: clean(draft.messageId, 1000),
    ...(draft.inReplyTo === null ? {} : { inReplyTo: clean(draft.inReplyTo, 1000) }),
    references: draft.references.map((id) => clean(id, 1000)),
    date: new Date(draft.date),
    headers: {
      "Auto-Submitted": draft.automatic,
      // The value `All` would also suppress the bounces that we need.
      "X-Auto-Response-Suppress": "OOF, AutoReply, DR, RN, NRN",
      "X-Bridgehead-Hops": String(draft.hops),
    },
    text: draft.text,
    html: draft.html,
    attachments: draft.attachments.map(({ name, mediaType }, index) => ({
      filename: name,
      contentType: mediaType,
      contentDisposition: "attachment",
      // Text files are base64 as well, because any other encoding changes line ends.
      contentTransferEncoding: "base64",
      content: bufferOf(files[index]),
    })),
    baseBoundary: draft.key,
    disableFileAccess: true,
    disableUrlAccess: true,
    xMailer: false,
    newline: "windows",
  });
  return composer.compile();
}

function mailbox(party: EmailDraft["from"]): { name: string; address: string } {
  return { name: clean(party.name, 200), address: clean(party.address, 320) };
}

function bufferOf(bytes: Uint8Array | undefined): Buffer {
  if (bytes === undefined) throw new Error("composing a mail: the bytes of an attachment are missing");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
