// Facts about large providers, by the host name of their servers, and the canonical names of addresses and mailboxes.

import type { ExclusiveResource } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import { asciiAddress } from "./parse/headers.ts";

export interface EmailProvider {
  /** True when the provider files every message we send in the Sent folder. */
  readonly filesSent: boolean;
  /** True when the provider keeps our Message-ID. Only then does its absence from Sent prove that the
   *  message was not sent. */
  readonly keepsMessageId: boolean;
  /** The longest time in ms that the server lets a connection idle; null when no limit below the default
   *  is known. */
  readonly idleLimit: number | null;
  /** The largest number of concurrent SMTP connections that the server accepts from one account. */
  readonly connections: number;
}

const unknownProvider: EmailProvider = {
  filesSent: false,
  keepsMessageId: true,
  idleLimit: null,
  connections: Number.POSITIVE_INFINITY,
};

// Sources: Google and Apple document that SMTP submission files the copy; Microsoft: "SMTP AUTH client submission"
// stores in Sent Items and replaces Message-IDs; idle limits as EmailEngine uses them; Microsoft: "SMTP AUTH: three concurrent connections".
const table: readonly (readonly [RegExp, Partial<EmailProvider>])[] = [
  [/(^|\.)(gmail|googlemail)\.com$/, { filesSent: true, keepsMessageId: true }],
  [
    /(^|\.)(office365|outlook|hotmail|live)\.com$|(^|\.)outlook\.office\.com$/,
    { filesSent: true, keepsMessageId: false, connections: 3 },
  ],
  [/(^|\.)mail\.me\.com$|(^|\.)icloud\.com$/, { filesSent: true, keepsMessageId: true }],
  [
    /(^|\.)(yahoo|aol)\.(com|co\.[a-z]+|[a-z]+)$/,
    { filesSent: true, keepsMessageId: true, idleLimit: 3 * 60_000 },
  ],
  [/(^|\.)(rambler\.ru|163\.com|126\.com)$/, { filesSent: false, keepsMessageId: true, idleLimit: 55_000 }],
];

/** Never fails: an unknown host counts as an ordinary server that files no copies. */
export function providerOf(host: string): EmailProvider {
  const name = host.toLowerCase();
  return { ...unknownProvider, ...table.find(([pattern]) => pattern.test(name))?.[1] };
}

export interface Servers {
  readonly imap: string;
  readonly smtp: string;
  /** False where IMAP logins need OAuth 2. */
  readonly passwords: boolean;
}

// Sources: the providers' documentation for other mail clients. Lists only providers whose IMAP and SMTP
// servers have different names and do not substitute for each other.
const separated: readonly (readonly [imap: string, smtp: string, passwords: boolean])[] = [
  ["imap.gmail.com", "smtp.gmail.com", true],
  ["outlook.office365.com", "smtp.office365.com", false],
  ["imap-mail.outlook.com", "smtp-mail.outlook.com", false],
  ["imap.mail.me.com", "smtp.mail.me.com", true],
  ["imap.mail.yahoo.com", "smtp.mail.yahoo.com", true],
  ["imap.aol.com", "smtp.aol.com", true],
  ["imap.fastmail.com", "smtp.fastmail.com", true],
  ["imap.gmx.net", "mail.gmx.net", true],
  ["imap.gmx.com", "mail.gmx.com", true],
  ["imap.web.de", "smtp.web.de", true],
  ["imap.ionos.com", "smtp.ionos.com", true],
  ["imap.ionos.de", "smtp.ionos.de", true],
  ["imap.strato.de", "smtp.strato.de", true],
  ["imap.zoho.com", "smtp.zoho.com", true],
  ["imap.zoho.eu", "smtp.zoho.eu", true],
  ["imap.yandex.com", "smtp.yandex.com", true],
  ["imap.mail.ru", "smtp.mail.ru", true],
];

/** Returns the servers of the provider that owns the host name; null for providers that are not listed. */
export function serversOf(host: string): Servers | null {
  const name = host.toLowerCase();
  const found = separated.find(([imap, smtp]) => name === imap || name === smtp);
  return found ? { imap: found[0], smtp: found[1], passwords: found[2] } : null;
}

/** RFC 5321, 4.5.3.1.3. */
const longest = 254;
const shape = /^[^\s@<>()[\],;:"\\]+@[^\s@<>()[\],;:"\\]+$/;

/** `AdapterDefinition.address`: returns one mailbox in lower case, its domain as A-labels. Returns null
 *  for anything else (a list, an address with a display name). */
export function mailbox(text: string): string | null {
  const address = asciiAddress(text.trim().toLowerCase());
  return address.length <= longest && shape.test(address) ? address : null;
}

/** Host names of the same service. */
const sameServer: Readonly<Record<string, string>> = {
  "imap.googlemail.com": "imap.gmail.com",
  "outlook.office.com": "outlook.office365.com",
};

/** `AdapterDefinition.exclusive`: returns one name for the folder of an account on a server, however it
 *  is written. Ports 143 and 993 count as the same server. Any other port is a separate server. */
export function mailboxOf(
  imap: Pick<EmailConfig["imap"], "host" | "port" | "user" | "mailbox">,
): ExclusiveResource {
  const written = imap.host.trim().toLowerCase().replace(/\.$/, "");
  // URL converts an internationalized name to A-labels, and any form of an IPv6 address to one form.
  const url = URL.parse(`http://${written.includes(":") ? `[${written.replace(/^\[|\]$/g, "")}]` : written}`);
  const name = url?.hostname ?? written;
  const host = sameServer[name] ?? name;
  const port = imap.port === 143 || imap.port === 993 ? "" : `:${imap.port}`;
  const user = imap.user.trim().normalize("NFC").toLowerCase();
  const folder = /^inbox$/i.test(imap.mailbox) ? "INBOX" : imap.mailbox.normalize("NFC");
  return {
    id: `imap:${host}${port}/${user}/${folder}`,
    name: `the folder ${folder} of ${user} on ${host}`,
    key: ["imap", "user"],
  };
}
