// Selects the attachments of a message: those that are stored, those that the event lists, and those that the author meant
// to send. Runs in the parser's worker thread.

import type { Attachment } from "bridgehead/contract";
import type { EventConfig } from "./events.ts";
import type { Mail, MailAttachment } from "./parse/mail.ts";

/** At most this many attachments that are not stored are listed. */
const mostListed = 30;

/** Media types of parts that mail clients and gateways add on their own. */
const addedTypes =
  /^(?:text\/(?:calendar|vcard|x-vcard|directory|rfc822-headers)|application\/(?:ics|pgp-(?:signature|keys)|(?:x-)?pkcs7-signature))$/i;
const addedNames = /\.(?:ics|vcf|p7s)$/i;
/** Containers that may hold all text and attachments and that we cannot open: encrypted, or packed by Outlook. */
const sealedTypes = /^application\/(?:ms-tnef|pgp-encrypted|(?:x-)?pkcs7-mime)$/i;
const sealedNames = /^winmail\.dat$|\.p7m$/i;

/** An attachment of an oversized message that was not downloaded. `size` is in bytes, as the IMAP server reports it. */
export interface Omitted {
  readonly name: string;
  readonly mediaType: string;
  readonly size: number;
}

/** Returns the attachments whose bytes are stored, within the limits of the configuration. */
function keptOf({ attachments: limits }: EventConfig, mail: Mail): readonly MailAttachment[] {
  return mail.attachments.filter((file) => file.bytes.length <= limits.max_bytes).slice(0, limits.max_count);
}

/** Returns the attachments of the event. Attachments that are not stored or cannot be opened are listed
 *  when the author meant to send them. */
export function attachmentsOf(config: EventConfig, mail: Mail, omitted: readonly Omitted[]): readonly Attachment[] {
  const kept = keptOf(config, mail);
  // A part next to `application/pgp-encrypted` is the encrypted message.
  const encrypted = mail.attachments.some(({ mediaType }) => /^application\/pgp-encrypted$/i.test(mediaType));
  const isMeant = (file: MailAttachment) =>
    !file.inline && !encrypted && !is(file, addedTypes, addedNames) && !isSealed(file);
  // The picture of a message without words is the message.
  const named = ({ inline }: MailAttachment) => config.attachments.name_to_agent && (!inline || mail.wordless);
  const lost = mail.attachments.filter((file) => isMeant(file) && !kept.includes(file));
  return [
    ...kept.map((file) => {
      const { name, mediaType, bytes } = file;
      return { name, mediaType, bytes, named: named(file), meant: isMeant(file) };
    }),
    ...lost.slice(0, mostListed).map((file) => unsent(sized(file), reasonOf(config, file.bytes.length))),
    ...mail.attachments
      .filter(isSealed)
      .slice(0, 1)
      .map((file) => unsent(sized(file), "what is in it cannot be read")),
    ...omitted.slice(0, mostListed).map((file) => unsent(file, "the message is too large to be downloaded as a whole")),
  ];
}

const sized = (file: MailAttachment): Omitted => ({ ...file, size: file.bytes.length });

const unsent = ({ name, mediaType, size }: Omitted, missing: string): Attachment => ({
  name,
  mediaType,
  size,
  named: false,
  meant: true,
  missing,
});

const isSealed = (file: MailAttachment): boolean => is(file, sealedTypes, sealedNames);

/** Compares the media type; compares the name when the type is generic. */
const is = ({ mediaType, name }: MailAttachment, types: RegExp, names: RegExp): boolean =>
  types.test(mediaType) || (mediaType.toLowerCase() === "application/octet-stream" && names.test(name));

function reasonOf({ attachments: { max_bytes, max_count } }: EventConfig, size: number): string {
  if (size > max_bytes) return `it is larger than ${Math.round(max_bytes / 1000)} kB`;
  return `a mail may have ${max_count} files`;
}

/** Returns the notes about attachments that are not stored; stored ones are listed with the message. */
export function notesOnFiles(config: EventConfig, mail: Mail, omitted: readonly Omitted[]) {
  const kept = keptOf(config, mail);
  const lost = mail.attachments.filter((file) => !file.inline && !kept.includes(file));
  return {
    ...(lost.length > 0 && { attachments_not_kept: listed(lost.map(sized)) }),
    ...(omitted.length > 0 && { attachments_too_large: listed(omitted) }),
  };
}

/** `big.pdf (application/pdf, 20000 bytes), ...`; at most 30 files. */
const listed = (files: readonly Omitted[]): string =>
  files
    .slice(0, mostListed)
    .map((file) => `${file.name} (${file.mediaType}, ${file.size} bytes)`)
    .join(", ");
