// Facts about large mail providers that a new operator needs: servers, the page for app passwords, and OAuth.

export interface MailServerAddress {
  readonly host: string;
  readonly port: number;
  readonly tls: "implicit" | "starttls" | "none";
}

export interface MailProvider {
  readonly name: string;
  /** Domains of the provider's own addresses. */
  readonly domains: readonly string[];
  /** Suffixes of MX hosts that serve customers' domains. */
  readonly mx: readonly string[];
  readonly imap: MailServerAddress;
  readonly smtp: MailServerAddress;
  /** The page that creates app passwords; null when the account's own password is used. */
  readonly appPasswords: string | null;
  /** The issuer for `oauth2`; null when the provider has none for IMAP. */
  readonly oauth: "google" | "microsoft" | null;
  /** False where IMAP accepts no passwords. */
  readonly passwords: boolean;
}

const implicit = (host: string, port: 993 | 465): MailServerAddress => ({ host, port, tls: "implicit" });
const submission = (host: string): MailServerAddress => ({ host, port: 587, tls: "starttls" });
const usual = { mx: [], appPasswords: null, oauth: null, passwords: true } as const;

type Usual = keyof typeof usual;
const facts: readonly (Omit<MailProvider, Usual> & Partial<Pick<MailProvider, Usual>>)[] = [
  {
    name: "Google",
    domains: ["gmail.com", "googlemail.com"],
    mx: [".google.com", ".googlemail.com"],
    imap: implicit("imap.gmail.com", 993),
    smtp: implicit("smtp.gmail.com", 465),
    appPasswords: "https://myaccount.google.com/apppasswords",
    oauth: "google",
  },
  {
    name: "Microsoft 365",
    domains: ["outlook.com", "hotmail.com", "live.com", "msn.com"],
    mx: [".mail.protection.outlook.com", ".mx.microsoft"],
    imap: implicit("outlook.office365.com", 993),
    smtp: submission("smtp.office365.com"),
    oauth: "microsoft",
    passwords: false,
  },
  {
    name: "iCloud",
    domains: ["icloud.com", "me.com", "mac.com"],
    mx: [".mail.icloud.com"],
    imap: implicit("imap.mail.me.com", 993),
    smtp: submission("smtp.mail.me.com"),
    appPasswords: "https://account.apple.com (Sign-In and Security, App-Specific Passwords)",
  },
  {
    name: "Yahoo",
    domains: ["yahoo.com", "yahoo.co.uk", "yahoo.de", "yahoo.fr", "ymail.com"],
    mx: [".yahoodns.net"],
    imap: implicit("imap.mail.yahoo.com", 993),
    smtp: implicit("smtp.mail.yahoo.com", 465),
    appPasswords: "https://login.yahoo.com/account/security",
  },
  {
    name: "AOL",
    domains: ["aol.com"],
    imap: implicit("imap.aol.com", 993),
    smtp: implicit("smtp.aol.com", 465),
    appPasswords: "https://login.aol.com/account/security",
  },
  {
    name: "Fastmail",
    domains: ["fastmail.com", "fastmail.fm"],
    mx: [".messagingengine.com"],
    imap: implicit("imap.fastmail.com", 993),
    smtp: implicit("smtp.fastmail.com", 465),
    appPasswords: "https://app.fastmail.com/settings/security/apps",
  },
  {
    name: "GMX",
    domains: ["gmx.net", "gmx.de", "gmx.at", "gmx.ch"],
    imap: implicit("imap.gmx.net", 993),
    smtp: implicit("mail.gmx.net", 465),
  },
  {
    name: "WEB.DE",
    domains: ["web.de"],
    imap: implicit("imap.web.de", 993),
    smtp: submission("smtp.web.de"),
  },
  {
    name: "IONOS",
    domains: [],
    mx: [".ionos.com", ".ionos.de", ".kundenserver.de"],
    imap: implicit("imap.ionos.com", 993),
    smtp: implicit("smtp.ionos.com", 465),
  },
  {
    name: "Zoho",
    domains: ["zohomail.com"],
    mx: [".zoho.com"],
    imap: implicit("imap.zoho.com", 993),
    smtp: implicit("smtp.zoho.com", 465),
    appPasswords: "https://accounts.zoho.com/home#security/app_password",
  },
  {
    name: "Yandex",
    domains: ["yandex.com", "yandex.ru"],
    mx: [".yandex.net", ".yandex.ru"],
    imap: implicit("imap.yandex.com", 993),
    smtp: implicit("smtp.yandex.com", 465),
    appPasswords: "https://id.yandex.com/security/app-passwords",
  },
];

/** Sources: the providers' documentation for other mail clients. */
export const mailProviders: readonly MailProvider[] = facts.map((one) => ({ ...usual, ...one }));

/** Returns the provider whose IMAP server this is; null for others. */
export const providerOfServer = (host: string): MailProvider | null =>
  mailProviders.find(({ imap }) => imap.host === host.toLowerCase()) ?? null;
