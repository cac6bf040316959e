// Reads the parts of a message that are not text: envelopes around it (opaque signatures, Italian certified mail), delivery
// reports, reactions, and content that cannot be read (encrypted, TNEF).

import { cleanAddress, cleanLine, headerOf, mailboxesOf, messageIdsOf } from "./headers.ts";
import type { DeliveryReport, Mailbox, Sealed } from "./mail.ts";
import { type HeaderField, type MimePart, readTree, walk } from "./mime.ts";

/** Signatures inside of signatures that are opened. */
const maxEnvelopes = 3;

interface OpenedMail {
  readonly root: MimePart;
  /** `Mail.certifiedAuthor`. */
  readonly certifiedAuthor: Mailbox | null;
}

/** Returns the message without the envelopes around it. */
export async function opened(root: MimePart): Promise<OpenedMail> {
  const signed = await unsigned(root, maxEnvelopes);
  const letter = headerOf(root.headers, "x-trasporto") === null ? undefined : [...walk(signed)].find(isMessage);
  if (letter === undefined) return { root: signed, certifiedAuthor: null };
  const inner = await unsigned(await readTree(letter.content), maxEnvelopes);
  const authors = mailboxesOf(inner.headers, "from");
  return {
    root: { ...inner, headers: certifiedHeaders(root.headers, inner.headers) },
    certifiedAuthor: authors.length === 1 ? (authors[0] ?? null) : null,
  };
}

const isMessage = ({ mediaType }: MimePart): boolean => mediaType === "message/rfc822";

/** What the envelope says about itself. Its subject is that of the message behind "POSTA CERTIFICATA:". */
const ofEnvelope =
  /^(?:from|sender|reply-to|to|cc|message-id|date|received|return-path|delivered-to|(?:x-)?envelope-to|x-original-to|x-forwarded-to)$/;

/** Returns the header fields of a message in the envelope of Italian certified mail (PEC, DM 2 November 2005, 6.4 and 6.5): the
 *  sender, the Message-ID and the route are those of the envelope. */
function certifiedHeaders(outer: readonly HeaderField[], inner: readonly HeaderField[]): readonly HeaderField[] {
  const kept = inner.filter(({ name }) => !ofEnvelope.test(name));
  return [...outer.filter(({ name }) => name !== "subject"), ...kept];
}

/** Returns the tree with the content of opaque S/MIME signatures (RFC 8551, 3.5.2) in their place. The signature is not
 *  verified. */
async function unsigned(part: MimePart, depth: number): Promise<MimePart> {
  const content = depth > 0 && smimePart(part) === opaque ? signedContent(part.content) : null;
  if (content !== null) {
    // Header protection (RFC 9788) repeats the fields of the message inside.
    return { ...(await unsigned(await readTree(content), depth - 1)), headers: part.headers };
  }
  if (!part.children.some((child) => child.children.length > 0 || smimePart(child) === opaque)) return part;
  return { ...part, children: await Promise.all(part.children.map((child) => unsigned(child, depth))) };
}

/** Returns the content of CMS signed data (RFC 5652, 5.1), in DER or BER; null without one. */
function signedContent(bytes: Uint8Array): Uint8Array | null {
  let at = 0;
  // The elements before that of the next level: of ContentInfo its type, of SignedData its version and algorithms.
  for (const skipped of [0, 1, 0, 2, 1]) {
    for (let i = 0; i < skipped; i++) at = elementAt(bytes, at).end;
    at = elementAt(bytes, at).start;
  }
  const octets = elementAt(bytes, at);
  if (octets.tag === octetString) return bytes.subarray(octets.start, octets.end);
  const chunks: Uint8Array[] = [];
  for (at = octets.start; octets.tag === chunkedString && at < octets.end; ) {
    const chunk = elementAt(bytes, at);
    if (chunk.tag !== octetString) break;
    chunks.push(bytes.subarray(chunk.start, chunk.end));
    at = chunk.end;
  }
  return chunks.length === 0 ? null : Buffer.concat(chunks);
}

const octetString = 0x04;
const chunkedString = 0x24;

/** Returns the tag of an element and where its content starts and ends (X.690, 8.1). One of indefinite length is not skipped,
 *  so its end is that of the bytes. */
function elementAt(
  bytes: Uint8Array,
  at: number,
): { readonly tag: number; readonly start: number; readonly end: number } {
  const size = bytes[at + 1] ?? 0;
  const start = at + 2 + (size > 0x80 ? size - 0x80 : 0);
  let length = size < 0x80 ? size : 0;
  for (let i = at + 2; i < start && length < bytes.length; i++) length = length * 256 + (bytes[i] ?? 0);
  return { tag: bytes[at] ?? 0, start, end: size === 0x80 ? bytes.length : start + length };
}

const maxRecipients = 200;
/** Bytes of a report or of a returned message that are read. */
const maxBytes = 200_000;

type MimeFields = ReadonlyMap<string, string>;

/** Returns the report in a message, or null when it has none. `fromServer`: the message has the null sender or is from a
 *  mail server. Gateways repack the reports of mail servers, so their parts count in any structure. In other messages they
 *  count in a multipart/report only: elsewhere they are attachments, such as those of a bounce that a customer forwards.
 *  Read receipts and abuse reports are from addresses of any name, and some gateways put their own text before a receipt:
 *  they count unless they are files. */
export function reportOf(root: MimePart, fromServer: boolean): DeliveryReport | null {
  const parts = [...walk(root)];
  const certified = headerOf(root.headers, "x-ricevuta")?.trim().toLowerCase();
  if (certified) return certifiedReport(root, parts, certified);
  const top = reportIn(root);
  const counted = top !== null || fromServer ? parts : [];
  const status = counted.find((part) => /^message\/(?:global-)?delivery-status$/.test(part.mediaType));
  const unnamed = [...counted, ...parts.filter((part) => !isFile(part))];
  const receipt = unnamed.find((part) => /^message\/(?:global-)?disposition-notification$/.test(part.mediaType));
  const abuse = unnamed.find((part) => part.mediaType === "message/feedback-report");
  const reportType = (top?.parameters["report-type"] ?? "").toLowerCase();
  const found = status ?? receipt ?? abuse;
  if (found === undefined && reportType === "") return null;
  const groups = found === undefined ? [] : fieldGroups(latin(found.content));
  const type = reportType || (status ? "delivery-status" : receipt ? "disposition-notification" : "feedback-report");
  return {
    type: cleanLine(type, 60),
    recipients: groups.flatMap(recipientOf).slice(0, maxRecipients),
    about: [
      ...new Set([
        ...groups.flatMap((fields) => messageIdsOf(fields.get("original-message-id") ?? null)),
        ...returnedIds(parts),
      ]),
    ],
    envelopeId: envelopeIdOf(groups),
  };
}

/** Reads a receipt of Italian certified mail (PEC). `kind`: accettazione, avvenuta-consegna, errore-consegna ... */
function certifiedReport({ headers }: MimePart, parts: readonly MimePart[], kind: string): DeliveryReport {
  const file = parts.find(({ fileName }) => fileName?.toLowerCase() === "daticert.xml");
  const xml = file === undefined ? "" : Buffer.from(file.content.subarray(0, maxBytes)).toString();
  const all = (name: string) =>
    [...xml.matchAll(new RegExp(`<${name}(?:\\s[^<>]{0,200})?>([^<>]{0,2000})</${name}>`, "g"))].map(
      ([, text = ""]) => text,
    );
  const delivery = all("consegna");
  const diagnostic = cleanLine(all("errore-esteso").join(" "), 500);
  const cause = /<postacert\s[^<>]{0,200}\berrore="([\w-]{1,40})"/.exec(xml)?.[1] ?? "";
  const status = gone.get(cause) ?? /\b[45]\.\d{1,3}\.\d{1,3}\b/.exec(diagnostic)?.[0] ?? "5.3.0";
  const fate = kind.startsWith("preavviso") ? "delayed" : "delivered";
  const action = /^(?:non-accettazione|(?:errore|mancata)-consegna|rilevazione-virus)$/.test(kind) ? "failed" : fate;
  return {
    type: "delivery-status",
    recipients: (delivery.length > 0 ? delivery : all("destinatari"))
      .slice(0, maxRecipients)
      .map((address) => ({ address: cleanAddress(address), action, status, diagnostic })),
    about: [...new Set([...messageIdsOf(headerOf(headers, "x-riferimento-message-id")), ...returnedIds(parts)])],
    envelopeId: null,
  };
}

/** Causes that name an invalid address, with their status of RFC 3463. */
const gone: ReadonlyMap<string, string> = new Map([
  ["no-dest", "5.1.1"],
  ["no-dominio", "5.1.2"],
]);

const isFile = ({ disposition, fileName }: MimePart): boolean => disposition === "attachment" || fileName !== null;

/** Returns the multipart/report that a message consists of, or null. A signature (S/MIME receipts) or the footer of a list
 *  makes it the first part of another multipart. */
function reportIn(root: MimePart): MimePart | null {
  let part: MimePart | undefined = root;
  while (part?.multipart === "signed" || part?.multipart === "mixed") part = part.children[0];
  return part?.mediaType === "multipart/report" ? part : null;
}

/** The actions of RFC 3464, 2.3.3, and `expired`, which SendGrid has written without a status. Of any other word the status
 *  says what it means. */
const actions = new Set(["failed", "expired", "delayed", "delivered", "relayed", "expanded"]);

function recipientOf(fields: MimeFields): DeliveryReport["recipients"][number][] {
  const final = fields.get("final-recipient") ?? fields.get("original-recipient") ?? fields.get("original-rcpt-to");
  if (final === undefined) return [];
  // Format: "rfc822; a@example.com". The original recipient is the address we used; the final one may be an
  // alias behind it.
  const original = fields.get("original-recipient");
  const address = addressIn(original ?? "") || addressIn(final);
  const action = (fields.get("action") ?? "").toLowerCase().split(/[\s;(]/, 1)[0] ?? "";
  return [
    {
      address,
      action: actions.has(action) ? action : "",
      status: /\b[245]\.\d{1,3}\.\d{1,3}\b/.exec(fields.get("status") ?? "")?.[0] ?? "",
      diagnostic: cleanLine(fields.get("diagnostic-code") ?? fields.get("disposition") ?? "", 500),
    },
  ];
}

/** Servers without SMTPUTF8 write a character outside ASCII as `\x{E4}` (RFC 6533, 3). */
function addressIn(value: string): string {
  const address = value.slice(value.indexOf(";") + 1).trim();
  return cleanAddress(
    address.replace(/\\x\{(10[\dA-F]{4}|[\dA-F]{2,5})\}/gi, (_, code: string) =>
      String.fromCodePoint(Number.parseInt(code, 16)),
    ),
  );
}

function envelopeIdOf(groups: readonly MimeFields[]): string | null {
  const id = groups.map((fields) => fields.get("original-envelope-id")).find((value) => value !== undefined);
  return id === undefined ? null : cleanLine(id, 200);
}

/** Returns the Message-IDs of the returned message, from a complete copy or from its header. */
function returnedIds(parts: readonly MimePart[]): string[] {
  return parts
    .filter((part) =>
      /^(?:message\/(?:rfc822|global|rfc822-headers|global-headers)|text\/rfc822-headers)$/.test(part.mediaType),
    )
    .flatMap((part) => idsOfReturned(part.content))
    .slice(0, 20);
}

/** Returns the Message-ID in the header of a returned message. */
export function idsOfReturned(bytes: Uint8Array): string[] {
  return fieldGroups(latin(bytes), 1).flatMap((fields) => messageIdsOf(fields.get("message-id") ?? null));
}

const latin = (bytes: Uint8Array) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, maxBytes)).toString("latin1");

/** Returns groups of `Name: value` fields separated by blank lines; the first field of a name counts. */
function fieldGroups(text: string, max = maxRecipients + 1): MimeFields[] {
  const groups: Map<string, string>[] = [new Map()];
  let last = "";
  for (const line of text.split("\n")) {
    const group = groups.at(-1) as Map<string, string>;
    if (line.trim() === "") {
      if (group.size > 0 && groups.length >= max) return groups;
      if (group.size > 0) groups.push(new Map());
    } else if (/^[ \t]/.test(line)) {
      const value = group.get(last) ?? "";
      if (value.length < 4000) group.set(last, `${value} ${line.trim()}`);
    } else {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      last = line.slice(0, colon).trim().toLowerCase();
      if (group.has(last)) last = "";
      else group.set(last, line.slice(colon + 1).trim());
    }
  }
  return groups.filter((group) => group.size > 0);
}

/** Returns the emoji of a reaction to a message, as Gmail sends it in a part of its own (and as text in the language of the
 *  sender); null without one. */
export function reactionIn(root: MimePart): string | null {
  for (const part of walk(root)) {
    if (part.mediaType !== "text/vnd.google.email-reaction+json") continue;
    const emoji = /"emoji"\s{0,5}:\s{0,5}"([^"\\]{1,40})"/.exec(
      Buffer.from(part.content.subarray(0, 500)).toString(),
    )?.[1];
    if (emoji !== undefined && /\p{Extended_Pictographic}|\p{RI}/u.test(emoji)) return emoji;
  }
  return null;
}

/** `text` is the author's new text: an armored PGP message in a quote is ignored. */
export function sealedIn(root: MimePart, text: string): Sealed | null {
  for (const part of walk(root)) {
    const found = sealedPart(part);
    if (found !== null) return found;
  }
  if (/^[ \t]{0,3}-----BEGIN PGP MESSAGE-----/m.test(text)) return pgp;
  return null;
}

const pgp: Sealed = { code: "pgp-encrypted", reason: "the message is encrypted with PGP" };
const encrypted: Sealed = { code: "smime-encrypted", reason: "the message is encrypted with S/MIME" };
const opaque: Sealed = {
  code: "smime-opaque",
  reason: "the message is wrapped in an opaque S/MIME signature and cannot be read",
};
const winmail: Sealed = {
  code: "winmail",
  reason: "the message is, or has attachments, in Outlook's winmail.dat (TNEF) and cannot be read completely",
};
const rights: Sealed = {
  code: "rights-protected",
  reason: "the message is encrypted with Microsoft Purview (rpmsg) and cannot be read",
};

function sealedPart(part: MimePart): Sealed | null {
  const { mediaType } = part;
  const name = (part.fileName ?? "").toLowerCase();
  const isUntyped = mediaType === "application/octet-stream";
  if (mediaType === "multipart/encrypted" || mediaType === "application/pgp-encrypted")
    return part.parameters["protocol"]?.toLowerCase().includes("pkcs7") ? encrypted : pgp;
  const signed = smimePart(part);
  if (signed !== undefined) return signed;
  if (/^application\/(?:vnd\.)?ms-tnef$/.test(mediaType) || (isUntyped && name === "winmail.dat")) return winmail;
  if (mediaType === "application/x-microsoft-rpmsg-message" || (isUntyped && name.endsWith(".rpmsg"))) return rights;
  if (isUntyped || mediaType.startsWith("application/pgp") || /\.(?:asc|pgp|gpg)$/.test(name))
    return headOf(part, 200).includes("-----BEGIN PGP MESSAGE-----") ? pgp : null;
  return null;
}

/** Checks attachments that were not downloaded, by type and name. Called for oversized messages. */
export function sealedInFiles(files: readonly { readonly mediaType: string; readonly name: string }[]): Sealed | null {
  for (const { mediaType, name } of files) {
    const untyped = mediaType === "application/octet-stream";
    const ending = untyped ? (/\.(p7m|rpmsg|asc|pgp|gpg)$/i.exec(name)?.[1]?.toLowerCase() ?? "") : "";
    if ((/^application\/(?:x-)?pkcs7-mime$/.test(mediaType) || ending === "p7m") && !isSignedFile(name))
      return encrypted;
    if (/^application\/(?:vnd\.)?ms-tnef$/.test(mediaType) || (untyped && /^winmail\.dat$/i.test(name))) return winmail;
    if (mediaType === "application/x-microsoft-rpmsg-message" || ending === "rpmsg") return rights;
    if (mediaType === "application/pgp-encrypted" || ["asc", "pgp", "gpg"].includes(ending)) return pgp;
  }
  return null;
}

/** DER encoding of the content type signedData (RFC 5652, 4), which marks signed messages and
 *  certificates. Other S/MIME content counts as encrypted. */
const signedData = "06092a864886f70d010702";

/** Undefined for a part that is not S/MIME. */
function smimePart(part: MimePart): Sealed | null | undefined {
  const { mediaType, fileName } = part;
  const isUntyped = mediaType === "application/octet-stream";
  if (!/^application\/(?:x-)?pkcs7-mime$/.test(mediaType) && !(isUntyped && /\.p7m$/i.test(fileName ?? "")))
    return undefined;
  const type = (part.parameters["smime-type"] ?? "").toLowerCase();
  if (type === "certs-only") return null;
  const signed = Buffer.from(part.content.subarray(0, 64)).toString("hex").includes(signedData);
  if (type !== "signed-data" && type !== "compressed-data" && !(type === "" && signed)) return encrypted;
  return isSignedFile(part.fileName ?? "") ? null : opaque;
}

/** True for the name of a signed document, such as "contract.pdf.p7m". Messages are named smime.p7m (RFC 8551, 3.2.1). */
const isSignedFile = (name: string): boolean => /.\.p7m$/i.test(name) && !/^smime\.p7m$/i.test(name);

const headOf = ({ content }: MimePart, bytes: number): string =>
  Buffer.from(content.subarray(0, bytes)).toString("latin1");
