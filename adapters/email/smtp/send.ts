// Performs one attempt to send a stored draft: encodes its message (RFC 5322) and sends it over an SMTP connection of the
// pool. A draft always yields the same bytes, so every attempt and the copy in Sent are identical.

import { Readable } from "node:stream";
import { type Attempt, externalId, fileRef, type Health, type SendOutcome } from "bridgehead/contract";
import { encode as base64, wrap as wrapBase64 } from "nodemailer/lib/base64";
import MailComposer from "nodemailer/lib/mail-composer";
import type MimeNode from "nodemailer/lib/mime-node";
import { encode as quotedPrintable, wrap as wrapQuotedPrintable } from "nodemailer/lib/qp";
import type { SMTPConnectionEnvelope, SMTPEnvelope } from "nodemailer/lib/smtp-connection";
import * as z from "zod";
import { isTokenFailure } from "../oauth.ts";
import { isLogin, outcomeOf, replyText, type SmtpFailure, statusOfSide } from "../status.ts";
import type { PooledConnection, SmtpPool } from "./connection.ts";

export interface SenderOptions {
  readonly pool: SmtpPool;
  readonly health: Health;
  /** Called with the message's bytes after the server accepted it. Must not throw. */
  readonly sent: (draft: EmailDraft, bytes: Buffer) => void;
}

/** Implements `Outbound.send`, with the parsed draft. */
export function sender(options: SenderOptions): (draft: EmailDraft, attempt: Attempt) => Promise<SendOutcome> {
  const { pool, health } = options;
  let loginFailures = 0;

  return async (draft, attempt) => {
    const files: Uint8Array[] = [];
    for (const { ref } of draft.attachments) files.push(await attempt.read(fileRef(ref)));
    const bytes = await messageBytes(draft, files);
    let outcome = await once(pool, draft, bytes, attempt, false);
    // The server had silently closed the idle connection. Nothing was sent, so retry once on a new connection.
    if (outcome.stale && !attempt.signal.aborted) outcome = await once(pool, draft, bytes, attempt, true);
    const { error, result } = outcome;
    if (error !== null && (isTokenFailure(error) || isLogin(error as SmtpFailure))) {
      loginFailures += 1;
      health.set("smtp", statusOfSide("smtp", error, loginFailures));
      pool.working = false;
    } else if (result.kind === "deferred" && result.cause === "set-up") {
      health.set("smtp", {
        state: "degraded",
        code: "account",
        reason: `smtp: the account may not send: ${result.reason}`,
      });
      pool.working = false;
    } else if (outcome.loggedIn) {
      loginFailures = 0;
      if (!pool.working) health.set("smtp", { state: "ready" });
      pool.working = true;
    } else if (!attempt.signal.aborted) {
      health.set("smtp", statusOfSide("smtp", error, 1));
      pool.working = false;
    }
    if (result.kind === "sent") options.sent(draft, bytes);
    return result;
  };
}

/** Until this attempt the whole message waits for a copy that is refused for now. Then it is sent to those that are accepted.
 *  Greylisting ends before: it lasts five minutes, as the first two delays do. */
const copyAttempts = 3;

interface Once {
  readonly result: SendOutcome;
  readonly error: unknown;
  readonly loggedIn: boolean;
  readonly stale: boolean;
}

async function once(pool: SmtpPool, draft: EmailDraft, bytes: Buffer, attempt: Attempt, fresh: boolean): Promise<Once> {
  const state: { pooled: PooledConnection | null; crossed: boolean } = { pooled: null, crossed: false };
  const envelope = envelopeOf(draft, bytes.length);
  /** Begins when the server has responded to every recipient and to DATA. The crossing is awaited when the message is
   *  written, except for the final dot, without which a server must not deliver anything. Of a large message, the last
   *  slices may still be in the buffers of the streams and of the kernel. */
  const message = async function* () {
    const { rejectedErrors = [] } = envelope;
    const refusal = refusalOf(draft, rejectedErrors);
    const waits = (one: SmtpFailure) => outcomeOf(one, false).kind !== "refused";
    // A retry would otherwise send the accepted copies again.
    if (refusal !== null && waits(refusal))
      throw Object.assign(new Error("the recipient was refused"), { rejectedErrors });
    const copy = refusal === null && attempt.number < copyAttempts ? rejectedErrors.find(waits) : undefined;
    if (copy !== undefined) throw copy;
    for (let at = 0; at < bytes.length; at += sliceBytes) yield bytes.subarray(at, at + sliceBytes);
    await attempt.crossing();
    state.crossed = true;
  };
  const work = async (pooled: PooledConnection): Promise<SendOutcome> => {
    state.pooled = pooled;
    if (!pooled.utf8 && [envelope.from, ...envelope.to].some((address) => /[^\x00-\x7f]/.test(address))) return noUtf8;
    return taken(draft, await transmit(pooled, envelope, message(), attempt.signal));
  };
  try {
    const result = await pool.use(attempt.signal, work, fresh);
    return { result, error: null, loggedIn: true, stale: false };
  } catch (thrown) {
    const { pooled, crossed } = state;
    const error = refusalOf(draft, (thrown as SmtpFailure).rejectedErrors) ?? thrown;
    const result = reached(outcomeOf(error, crossed), pooled !== null);
    const stale = pooled?.used === true && !crossed && (error as SmtpFailure).responseCode === undefined;
    return { result, error, loggedIn: pooled !== null, stale };
  }
}

/** Returns the response that refused the recipients in To, of several a temporary one; null when the server accepted one of
 *  them. It decides about the draft, because the responses to the copies say nothing about the recipient. */
function refusalOf(draft: EmailDraft, refusals: readonly SmtpFailure[] = []): SmtpFailure | null {
  const own = refusals.filter(({ recipient }) => draft.to.some(({ address }) => address === recipient));
  if (own.length < draft.to.length) return null;
  return own.find((one) => outcomeOf(one, false).kind === "deferred") ?? own[0] ?? null;
}

/** Without a connection no message can be sent. The deferral applies to the channel, so one attempt at a
 *  time tests whether the server is back. */
function reached(outcome: SendOutcome, connected: boolean): SendOutcome {
  if (connected || outcome.kind !== "deferred" || outcome.scope !== undefined) return outcome;
  return { ...outcome, scope: "channel", cause: "unreachable" };
}
/** Code X.6.7 of the registry of RFC 5248. A server without the extension would reject the address or corrupt it. */
const noUtf8: SendOutcome = {
  kind: "refused",
  code: "5.6.7",
  reason: "an address has a local part outside ASCII, and the SMTP server does not offer SMTPUTF8 (RFC 6531)",
  scope: "draft",
};

interface Info {
  readonly response: string;
  readonly rejectedErrors?: readonly SmtpFailure[] | undefined;
  readonly serverMessageId?: string | undefined;
}

/** The socket takes the message in slices of this size, in bytes. A single chunk would count as written while most of it waits
 *  for the server. */
const sliceBytes = 65_536;

/** Runs the dialogue from MAIL to the response after the final dot. */
function transmit(
  { connection }: PooledConnection,
  envelope: DraftEnvelope,
  message: AsyncIterable<Buffer>,
  signal: AbortSignal,
): Promise<Info> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(Object.assign(new Error("the attempt ran out of time"), { code: "ETIMEDOUT" }));
      connection.close();
    };
    const fail = (error: Error) => reject(error);
    const ended = () => fail(Object.assign(new Error("the server closed the connection"), { code: "ECONNECTION" }));
    signal.addEventListener("abort", abort, { once: true });
    connection.on("error", fail);
    connection.on("end", ended);
    connection.send(envelope, Readable.from(message, { objectMode: false }), (error, info) => {
      signal.removeEventListener("abort", abort);
      connection.off("error", fail);
      connection.off("end", ended);
      if (error) reject(error);
      else resolve(info);
    });
  });
}

interface DraftEnvelope extends Pick<SMTPEnvelope, "size" | "dsn"> {
  readonly from: string;
  readonly to: string[];
  /** Written by nodemailer during the dialogue: the responses to the recipients that the server refused. */
  readonly rejectedErrors?: SMTPConnectionEnvelope["rejectedErrors"];
}

/** `compose` wrote the domains as A-labels, because servers without SMTPUTF8 accept no others (RFC 6531, 3.2). */
function envelopeOf(draft: EmailDraft, size: number): DraftEnvelope {
  return {
    from: draft.envelopeFrom,
    to: [...draft.to, ...draft.cc].map((party) => party.address),
    size,
    // Bounces then name the draft, where the server supports the DSN extension.
    dsn: { ret: "HDRS", envid: draft.key, notify: "FAILURE" },
  };
}

/** Characters of a server's responses that are stored with the attempt: that to the message contains the server's queue id. */
const longestResponse = 500;

/** With several recipients the server may refuse some and accept the message for the others. */
function taken(draft: EmailDraft, info: Info): SendOutcome {
  const { rejectedErrors = [] } = info;
  const refusal = refusalOf(draft, rejectedErrors);
  const outcome = refusal === null ? null : outcomeOf(refusal, true);
  if (outcome?.kind === "refused") return { ...outcome, reason: `${outcome.reason}; only the copies were accepted` };
  const responses = [...new Set(rejectedErrors.map(replyText))].join(", ").slice(0, longestResponse);
  const { serverMessageId: given = draft.messageId } = info;
  const replaced = given.startsWith("<") ? given : `<${given}>`;
  return {
    kind: "sent",
    id: externalId(draft.messageId),
    ...(replaced === draft.messageId ? {} : { also: [externalId(replaced)] }),
    detail: [
      info.response.trim().slice(0, longestResponse),
      ...(rejectedErrors.length > 0 ? [`${rejectedErrors.length} of the recipients were refused: ${responses}`] : []),
    ].join("; "),
  };
}

/** A value of a header, without line breaks and control characters, which could begin another header. `compose` removes
 *  them. */
const line = z.string().regex(/^[^\p{Cc}\u2028\u2029]*$/u);
const party = z.strictObject({ address: line, name: line });

const schema = z.strictObject({
  v: z.literal(1),
  /** The send key, which identifies the draft in the envelope and in boundaries. */
  key: z.string(),
  envelopeFrom: line,
  from: party,
  to: z.array(party),
  cc: z.array(party),
  replyTo: line.nullable(),
  subject: line,
  /** With angle brackets, as are the following ids. */
  messageId: line,
  inReplyTo: line.nullable(),
  references: z.array(line),
  /** ISO 8601. */
  date: z.string(),
  /** The Auto-Submitted header (RFC 3834): responses use `auto-replied`; outbound conversations and
   *  notifications use `auto-generated`; text by a person uses `no`. */
  automatic: z.enum(["auto-replied", "auto-generated", "no"]),
  hops: z.int(),
  text: z.string(),
  html: z.string(),
  /** The core stores the bytes under `ref`. */
  attachments: z.array(z.strictObject({ name: z.string(), mediaType: z.string(), size: z.int(), ref: z.string() })),
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
    from: draft.from,
    to: [...draft.to],
    cc: [...draft.cc],
    ...(draft.replyTo === null ? {} : { replyTo: draft.replyTo }),
    subject: draft.subject,
    messageId: draft.messageId,
    ...(draft.inReplyTo === null ? {} : { inReplyTo: draft.inReplyTo }),
    references: [...draft.references],
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

function bufferOf(bytes: Uint8Array | undefined): Buffer {
  if (bytes === undefined) throw new Error("composing a mail: the bytes of an attachment are missing");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
