// What is known about large providers, by the host name of their servers.

export interface Provider {
  /** Puts every mail we send into the Sent folder itself. */
  readonly filesSent: boolean;
  /** Keeps our Message-ID: only then does its absence from Sent prove anything. */
  readonly keepsMessageId: boolean;
  /** The longest it lets a line idle, ms; null when nothing shorter than usual is known. */
  readonly idleLimit: number | null;
}

const unknownProvider: Provider = { filesSent: false, keepsMessageId: true, idleLimit: null };

// Sources: Google and Apple document that SMTP submission files the copy; Microsoft: "SMTP AUTH client submission"
// stores in Sent Items and replaces Message-IDs; idle limits as EmailEngine uses them.
const table: readonly (readonly [RegExp, Provider])[] = [
  [/(^|\.)(gmail|googlemail)\.com$/, { filesSent: true, keepsMessageId: true, idleLimit: null }],
  [
    /(^|\.)(office365|outlook|hotmail|live)\.com$|(^|\.)outlook\.office\.com$/,
    { filesSent: true, keepsMessageId: false, idleLimit: null },
  ],
  [/(^|\.)mail\.me\.com$|(^|\.)icloud\.com$/, { filesSent: true, keepsMessageId: true, idleLimit: null }],
  [
    /(^|\.)(yahoo|aol)\.(com|co\.[a-z]+|[a-z]+)$/,
    { filesSent: true, keepsMessageId: true, idleLimit: 3 * 60_000 },
  ],
  [/(^|\.)(rambler\.ru|163\.com|126\.com)$/, { filesSent: false, keepsMessageId: true, idleLimit: 55_000 }],
];

/** Never fails: an unknown host is an ordinary server that files nothing. */
export function providerOf(host: string): Provider {
  const name = host.toLowerCase();
  return table.find(([pattern]) => pattern.test(name))?.[1] ?? unknownProvider;
}

export interface Servers {
  readonly imap: string;
  readonly smtp: string;
  /** False where IMAP logins need OAuth 2. */
  readonly passwords: boolean;
}

// Sources: the providers' own pages for other mail programs. Only those whose servers have different names and do not
// stand in for each other.
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

/** The servers of the provider that one of the two names belongs to; null: none of these providers. */
export function serversOf(host: string): Servers | null {
  const name = host.toLowerCase();
  const found = separated.find(([imap, smtp]) => name === imap || name === smtp);
  return found ? { imap: found[0], smtp: found[1], passwords: found[2] } : null;
}
