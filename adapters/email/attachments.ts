// What is attached to a mail: what of it is kept, what the agent is told of, and what its writer meant to hand over.

import type { Attachment } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import type { Mail, MailAttachment } from "./parse/mail.ts";

/** More are not listed when they are not kept. */
const mostListed = 30;

/** What mail programs and gateways add by themselves. */
const addedTypes =
  /^(?:text\/(?:calendar|vcard|x-vcard|directory|rfc822-headers)|application\/(?:ics|pgp-(?:signature|keys)|(?:x-)?pkcs7-signature))$/i;
const addedNames = /\.(?:ics|vcf|p7s)$/i;
/** What a person wrote and attached may all be in there, and we cannot look: encrypted, or packed by Outlook. */
const sealedTypes = /^application\/(?:ms-tnef|pgp-encrypted|(?:x-)?pkcs7-mime)$/i;
const sealedNames = /^winmail\.dat$|\.p7m$/i;

/** An attachment of an oversized message that was not downloaded. `size` is in bytes, as the IMAP server reports it. */
export interface Omitted {
  readonly name: string;
  readonly mediaType: string;
  readonly size: number;
}

/** Those whose bytes are stored, within the limits of the configuration. */
export function keptOf({ attachments: limits }: EmailConfig, mail: Mail): readonly MailAttachment[] {
  return mail.attachments.filter((file) => file.bytes.length <= limits.max_bytes).slice(0, limits.max_count);
}

/** The attachments of the event. What is not kept, or cannot be opened, is listed where its writer will want to know. */
export function attachmentsOf(
  config: EmailConfig,
  mail: Mail,
  omitted: readonly Omitted[] = [],
): readonly Attachment[] {
  const kept = keptOf(config, mail);
  // What stands beside a part that says "encrypted" is the encrypted mail.
  const encrypted = mail.attachments.some(({ mediaType }) => /^application\/pgp-encrypted$/i.test(mediaType));
  const isMeant = (file: MailAttachment) =>
    !file.inline && !encrypted && !is(file, addedTypes, addedNames) && !isSealed(file);
  const named = ({ inline }: MailAttachment) => config.attachments.name_to_agent && !inline;
  const lost = mail.attachments.filter((file) => isMeant(file) && !kept.includes(file));
  return [
    ...kept.map((file) => {
      const { name, mediaType, bytes } = file;
      return { name, mediaType, bytes, named: named(file), meant: isMeant(file) };
    }),
    ...lost.slice(0, mostListed).map((file) => unsent(file, reasonOf(config, file.bytes.length))),
    ...mail.attachments
      .filter(isSealed)
      .slice(0, 1)
      .map((file) => unsent(file, "what is in it cannot be read")),
    ...omitted.slice(0, mostListed).map(({ name, mediaType, size }) => ({
      name,
      mediaType,
      size,
      named: false,
      meant: true,
      missing: "the message is too large to be downloaded as a whole",
    })),
  ];
}

const unsent = ({ name, mediaType, bytes }: MailAttachment, missing: string): Attachment => ({
  name,
  mediaType,
  size: bytes.length,
  named: false,
  meant: true,
  missing,
});

const isSealed = (file: MailAttachment): boolean => is(file, sealedTypes, sealedNames);

/** By its type, or by its name where the type says nothing. */
const is = ({ mediaType, name }: MailAttachment, types: RegExp, names: RegExp): boolean =>
  types.test(mediaType) || (mediaType.toLowerCase() === "application/octet-stream" && names.test(name));

function reasonOf({ attachments: { max_bytes, max_count } }: EmailConfig, size: number): string {
  if (size > max_bytes) return `it is larger than ${Math.round(max_bytes / 1000)} kB`;
  return `a mail may have ${max_count} files`;
}
