// What is attached to a mail: what of it is kept, what the agent is told of, and what its writer meant to hand over.

import type { Attachment } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import type { Mail, MailAttachment } from "./parse/mail.ts";

/** More are not listed when they are not kept. */
const mostListed = 30;

/** What mail programs and gateways add by themselves. */
const addedTypes =
  /^(?:text\/(?:calendar|vcard|x-vcard|directory|rfc822-headers)|application\/(?:ics|ms-tnef|pgp-.*|(?:x-)?pkcs7-.*))$/i;
const addedNames = /^winmail\.dat$|\.(?:ics|vcf|p7[sm])$/i;

/** Those whose bytes are stored, within the limits of the configuration. */
export function keptOf({ attachments: limits }: EmailConfig, mail: Mail): readonly MailAttachment[] {
  return mail.attachments.filter((file) => file.bytes.length <= limits.max_bytes).slice(0, limits.max_count);
}

/** The attachments of the event. What is not kept is listed where its writer will want to know of it. */
export function attachmentsOf(config: EmailConfig, mail: Mail): readonly Attachment[] {
  const kept = keptOf(config, mail);
  const lost = mail.attachments.filter((file) => isMeant(file) && !kept.includes(file)).slice(0, mostListed);
  return [
    ...kept.map(({ name, mediaType, bytes, ...file }) => {
      const meant = isMeant({ name, mediaType, bytes, ...file });
      return { name, mediaType, bytes, named: config.attachments.name_to_agent && !file.inline, meant };
    }),
    ...lost.map(({ name, mediaType, bytes }) => ({
      name,
      mediaType,
      size: bytes.length,
      named: false,
      meant: true,
      missing: reasonOf(config, bytes.length),
    })),
  ];
}

function isMeant({ inline, mediaType, name }: MailAttachment): boolean {
  const bare = mediaType.toLowerCase() === "application/octet-stream";
  return !inline && !addedTypes.test(mediaType) && !(bare && addedNames.test(name));
}

function reasonOf({ attachments: { max_bytes, max_count } }: EmailConfig, size: number): string {
  if (size > max_bytes) return `it is larger than ${Math.round(max_bytes / 1000)} kB`;
  return `a mail may have ${max_count} files`;
}
