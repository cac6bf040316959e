// Returns the bytes of a draft (RFC 5322). The input is only the draft and its files, so every attempt and
// the copy in Sent are identical.

import { encode as base64, wrap as wrapBase64 } from "nodemailer/lib/base64";
import MailComposer from "nodemailer/lib/mail-composer";
import type MimeNode from "nodemailer/lib/mime-node";
import { encode as quotedPrintable, wrap as wrapQuotedPrintable } from "nodemailer/lib/qp";
import { clean } from "./compose.ts";
import type { Draft } from "./draft.ts";

/** Longer texts are encoded by nodemailer's streams, slice by slice. In characters. */
const streamedLength = 20_000;

/** The message has CRLF line ends. `files`: the bytes of the draft's attachments, in their order. */
export async function messageBytes(draft: Draft, files: readonly Uint8Array[] = []): Promise<Buffer> {
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

function compiled(draft: Draft, files: readonly Uint8Array[]): MimeNode {
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

function mailbox(party: Draft["from"]): { name: string; address: string } {
  return { name: clean(party.name, 200), address: clean(party.address, 320) };
}

function bufferOf(bytes: Uint8Array | undefined): Buffer {
  if (bytes === undefined) throw new Error("composing a mail: the bytes of an attachment are missing");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
