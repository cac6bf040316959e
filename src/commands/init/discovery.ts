// Finds the servers of an email address: known providers, DNS SRV records (RFC 6186, RFC 8314), and the
// autoconfiguration file of the domain (Mozilla's format). All of it is data of others: the operator sees the
// names before a password is asked.

import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import type { Requesting } from "../io.ts";

export interface MailServers {
  readonly imap: MailServerAddress;
  readonly smtp: MailServerAddress;
  /** For the operator: `Google`, `DNS SRV records of example.com`. */
  readonly source: string;
  readonly provider: MailProvider | null;
}

/** The network as the discovery uses it. Every method resolves to an empty result on a failure. */
export interface Lookup {
  srv(name: string): Promise<readonly SrvTarget[]>;
  mx(domain: string): Promise<readonly string[]>;
  /** Returns the text of an https page; null for any other response. */
  page(url: string): Promise<string | null>;
}

interface SrvTarget {
  readonly name: string;
  readonly port: number;
  readonly priority: number;
  readonly weight: number;
}

/** Characters of an autoconfiguration file that are read. */
const pageLimit = 100_000;

/** The real network. `dns`: name servers; default: the system's. */
export function systemLookup({ signal, timing }: Requesting, dns?: readonly string[]): Lookup {
  const { initLookup } = timing.commands;
  const resolver = new Resolver({ timeout: initLookup, tries: 1 });
  if (dns) resolver.setServers(dns);
  signal.addEventListener("abort", () => resolver.cancel(), { once: true });
  return {
    srv: (name) => resolver.resolveSrv(name).catch(() => []),
    mx: async (domain) =>
      (await resolver.resolveMx(domain).catch(() => [])).map(({ exchange }) => exchange.toLowerCase()),
    async page(url) {
      try {
        const within = AbortSignal.any([signal, AbortSignal.timeout(initLookup)]);
        const response = await fetch(url, { signal: within });
        return response.ok ? (await response.text()).slice(0, pageLimit) : null;
      } catch {
        return null;
      }
    },
  };
}

/** Returns the servers of an address; null when nothing names them. */
export async function discover(address: string, lookup: Lookup): Promise<MailServers | null> {
  const domain = address.slice(address.lastIndexOf("@") + 1).toLowerCase();
  const own = mailProviders.find(({ domains }) => domains.includes(domain));
  if (own) return known(own, own.name);
  const [mx, srv, autoconfig] = await Promise.all([
    lookup.mx(domain),
    fromRecords(domain, lookup),
    fromAutoconfig(address, domain, lookup),
  ]);
  const host = mailProviders.find((provider) =>
    mx.some((name) => provider.mx.some((suffix) => `.${name}`.endsWith(suffix))),
  );
  return host ? known(host, `${host.name}, which receives mail for ${domain}`) : (srv ?? autoconfig);
}

const known = (provider: MailProvider, source: string): MailServers => ({
  imap: provider.imap,
  smtp: provider.smtp,
  source,
  provider,
});

async function fromRecords(domain: string, lookup: Lookup): Promise<MailServers | null> {
  const one = async (service: string, tls: "implicit" | "starttls"): Promise<MailServerAddress | null> => {
    const records = await lookup.srv(`_${service}._tcp.${domain}`);
    // A single record with the target "." means that the service is not available (RFC 2782).
    const usable = records.filter(({ name }) => isHost(name));
    const [best] = usable.toSorted((a, b) => a.priority - b.priority || b.weight - a.weight);
    return best ? { host: best.name, port: best.port, tls } : null;
  };
  const [imaps, imap, submissions, submission] = await Promise.all([
    one("imaps", "implicit"),
    one("imap", "starttls"),
    one("submissions", "implicit"),
    one("submission", "starttls"),
  ]);
  const [reading, sending] = [imaps ?? imap, submissions ?? submission];
  if (!reading || !sending) return null;
  return { imap: reading, smtp: sending, source: `DNS SRV records of ${domain}`, provider: null };
}

/** Only https: this file decides where the password is sent. */
async function fromAutoconfig(address: string, domain: string, lookup: Lookup): Promise<MailServers | null> {
  const query = `?emailaddress=${encodeURIComponent(address)}`;
  const pages = [
    `https://autoconfig.${domain}/mail/config-v1.1.xml${query}`,
    `https://${domain}/.well-known/autoconfig/mail/config-v1.1.xml${query}`,
  ];
  const texts = await Promise.all(pages.map((url) => lookup.page(url)));
  for (const text of texts) {
    const found = text === null ? null : readAutoconfig(text);
    if (found) return { ...found, source: `the autoconfiguration file of ${domain}`, provider: null };
  }
  return null;
}

/** Reads Mozilla's clientConfig format. Returns null unless it names an IMAP and an SMTP server with TLS. */
export function readAutoconfig(text: string): Pick<MailServers, "imap" | "smtp"> | null {
  const imap = serverIn(text, "incomingServer", "imap");
  const smtp = serverIn(text, "outgoingServer", "smtp");
  return imap && smtp ? { imap, smtp } : null;
}

function serverIn(text: string, element: string, type: string): MailServerAddress | null {
  for (let from = 0; ; ) {
    const start = text.indexOf(`<${element} `, from);
    const end = start < 0 ? -1 : text.indexOf(`</${element}>`, start);
    if (end < 0) return null;
    from = end;
    const block = text.slice(start, end);
    const tag = block.slice(0, block.indexOf(">") + 1);
    if (!tag.includes(`"${type}"`) && !tag.includes(`'${type}'`)) continue;
    const [host, port] = [valueIn(block, "hostname"), Number(valueIn(block, "port"))];
    const tls = { SSL: "implicit", STARTTLS: "starttls" }[valueIn(block, "socketType")];
    const valid = isHost(host) && Number.isInteger(port) && port > 0 && port <= 65_535;
    if (valid && tls) return { host, port, tls: tls as "implicit" | "starttls" };
  }
}

function valueIn(block: string, element: string): string {
  const start = block.indexOf(`<${element}>`);
  const end = block.indexOf(`</${element}>`, start);
  return start < 0 || end < 0 ? "" : block.slice(start + element.length + 2, end).trim();
}

const isHost = (text: string): boolean =>
  text.length <= 253 && (isIP(text) > 0 || /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(text));

/** Parses a server as an operator writes it: `imap.example.com`, `imap.example.com:143`, `[::1]:1143/starttls`. Without a
 *  written encryption the port selects it; `tls` null means that it has to be tried. Returns null for anything else. */
export function readServer(text: string, side: "imap" | "smtp"): GuessedServer | null {
  const [, v6, name, digits, tls] =
    /^(?:\[([^\]]{2,45})\]|([^:/\s]{1,253}))(?::(\d{1,5}))?(?:\/(implicit|starttls))?$/.exec(text.trim()) ?? [];
  const host = v6 ?? name ?? "";
  const port = digits === undefined ? (side === "imap" ? 993 : 465) : Number(digits);
  if (!isHost(host) || port < 1 || port > 65_535) return null;
  if (tls !== undefined) return { host, port, tls: tls as "implicit" | "starttls" };
  if (port === 993 || port === 465) return { host, port, tls: "implicit" };
  return { host, port, tls: [143, 587, 25].includes(port) ? "starttls" : null };
}

export interface MailServerAddress {
  readonly host: string;
  readonly port: number;
  readonly tls: "implicit" | "starttls" | "none";
}

/** A server whose encryption may not be known: `tls` is null then. */
export type GuessedServer = Omit<MailServerAddress, "tls"> & { readonly tls: MailServerAddress["tls"] | null };

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
const mailProviders: readonly MailProvider[] = facts.map((one) => ({ ...usual, ...one }));

export const providerOfServer = (host: string): MailProvider | null =>
  mailProviders.find(({ imap }) => imap.host === host.toLowerCase()) ?? null;
