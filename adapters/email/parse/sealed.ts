// Detects content that the MIME tree does not show as text: encrypted messages, opaque signatures, TNEF,
// and calendar objects.

import type { Sealed } from "./mail.ts";
import { type Part, walk } from "./tree.ts";

/** Returns METHOD of the first calendar part in lower case (RFC 5546), "" when it has none, null without
 *  a calendar part. A calendar file attached to a text counts as an ordinary file; calendar programs
 *  send theirs as an alternative of the text. */
export function calendarMethodOf(root: Part, text: string): string | null {
  for (const part of walk(root)) {
    if (part.disposition === "attachment" && text.trim() !== "") continue;
    const isCalendar =
      part.mediaType === "text/calendar" ||
      part.mediaType === "application/ics" ||
      (part.mediaType === "application/octet-stream" && /\.ics$/i.test(part.fileName ?? ""));
    if (!isCalendar) continue;
    const inside = /^METHOD(?:;[^:\r\n]{0,100})?:([A-Z-]{1,30})/im.exec(headOf(part, 20_000))?.[1];
    return (part.parameters["method"] ?? inside ?? "").trim().toLowerCase();
  }
  return null;
}

/** `text` is the author's new text: an armored PGP message in a quote is ignored. */
export function sealedIn(root: Part, text: string): Sealed | null {
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

function sealedPart(part: Part): Sealed | null {
  const { mediaType } = part;
  const name = (part.fileName ?? "").toLowerCase();
  const isUntyped = mediaType === "application/octet-stream";
  if (mediaType === "multipart/encrypted" || mediaType === "application/pgp-encrypted")
    return part.parameters["protocol"]?.toLowerCase().includes("pkcs7") ? encrypted : pgp;
  if (/^application\/(?:x-)?pkcs7-mime$/.test(mediaType) || (isUntyped && name.endsWith(".p7m")))
    return smime(part);
  if (/^application\/(?:vnd\.)?ms-tnef$/.test(mediaType) || (isUntyped && name === "winmail.dat"))
    return winmail;
  if (mediaType === "application/x-microsoft-rpmsg-message" || (isUntyped && name.endsWith(".rpmsg")))
    return rights;
  if (isUntyped || mediaType.startsWith("application/pgp") || /\.(?:asc|pgp|gpg)$/.test(name))
    return headOf(part, 200).includes("-----BEGIN PGP MESSAGE-----") ? pgp : null;
  return null;
}

/** Checks attachments that were not downloaded, by type and name. Called for oversized messages. */
export function sealedInFiles(
  files: readonly { readonly mediaType: string; readonly name: string }[],
): Sealed | null {
  for (const { mediaType, name } of files) {
    const untyped = mediaType === "application/octet-stream";
    const ending = untyped ? (/\.(p7m|rpmsg|asc|pgp|gpg)$/i.exec(name)?.[1]?.toLowerCase() ?? "") : "";
    if (/^application\/(?:x-)?pkcs7-mime$/.test(mediaType) || ending === "p7m") return encrypted;
    if (/^application\/(?:vnd\.)?ms-tnef$/.test(mediaType) || (untyped && /^winmail\.dat$/i.test(name)))
      return winmail;
    if (mediaType === "application/x-microsoft-rpmsg-message" || ending === "rpmsg") return rights;
    if (mediaType === "application/pgp-encrypted" || ["asc", "pgp", "gpg"].includes(ending)) return pgp;
  }
  return null;
}

/** DER encoding of the content type signedData (RFC 5652, 4), which marks signed messages and
 *  certificates. Other S/MIME content counts as encrypted. */
const signedData = "06092a864886f70d010702";

function smime(part: Part): Sealed | null {
  const type = (part.parameters["smime-type"] ?? "").toLowerCase();
  if (type === "certs-only") return null;
  const signed = Buffer.from(part.content.subarray(0, 64)).toString("hex").includes(signedData);
  return type === "signed-data" || type === "compressed-data" || (type === "" && signed) ? opaque : encrypted;
}

const headOf = ({ content }: Part, bytes: number): string =>
  Buffer.from(content.subarray(0, bytes)).toString("latin1");
