// Looks for problems of a working mailbox, for `doctor --online`: capabilities of the server, the mailbox since the
// last read, and the DNS records of the address in From. Sends nothing and changes nothing.

import { Resolver } from "node:dns/promises";
import { type ChannelFinding, type Cursor, day, type TlsServer } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type SMTPConnection from "nodemailer/lib/smtp-connection";
import type { EmailConfig } from "./config.ts";
import { type ConnectionOptions, openConnection } from "./imap/connection.ts";
import { headerFields } from "./imap/header-fields.ts";
import { lastUid, readPosition, validityOf } from "./imap/mailbox.ts";
import { type PooledConnection, type SmtpPool, step } from "./smtp/connection.ts";

/** Returns the servers of the channel that use TLS. */
export function tlsServers({ imap, smtp }: EmailConfig): readonly TlsServer[] {
  const sides = [
    { part: "imap", side: imap, starttls: "imap-starttls" },
    { part: "smtp", side: smtp, starttls: "smtp-starttls" },
  ] as const;
  return sides.flatMap(({ part, side: { host, port, tls, ca }, starttls }) => {
    if (tls === "none") return [];
    return [{ part, host, port, tls: tls === "starttls" ? starttls : tls, ...(ca !== undefined && { ca }) }];
  });
}

/** Rejects when the mailbox cannot be opened. */
export async function examine(
  config: EmailConfig,
  connection: ConnectionOptions,
  pool: SmtpPool,
  committed: Cursor | null,
  now: number,
  signal: AbortSignal,
): Promise<readonly ChannelFinding[]> {
  const address = config.address ?? config.imap.user;
  const domain = address.slice(address.lastIndexOf("@") + 1);
  const { client } = await openConnection(connection, signal);
  const abort = () => client.close();
  signal.addEventListener("abort", abort, { once: true });
  let findings: ChannelFinding[];
  let signature: Signature | null;
  try {
    await client.mailboxOpen(config.imap.mailbox, { readOnly: true });
    findings = [
      ...capabilities(client, config),
      ...validity(client, committed),
      ...(await newest(client, config, connection.timing.quiet, now)),
    ];
    signature = await newestSignature(client, config, address);
  } finally {
    signal.removeEventListener("abort", abort);
    client.close();
  }
  if (!address.includes("@")) return findings;
  const refused = await refusedSender(config, address, pool, signal);
  return [...findings, ...refused, ...(await sender(config, domain, signature, connection.timing.examineAnswer))];
}

/** nodemailer has no public function for a single command. */
interface SmtpCommands {
  readonly _responseActions: ((response: string) => void)[];
  _sendCommand(command: string): void;
}

/** Sends a command and returns its response. Rejects when the connection ends, also by the signal; after a 421 nodemailer
 *  closes it without an error and ignores further commands. */
async function ask(connection: SMTPConnection, command: string, signal: AbortSignal): Promise<string> {
  const abort = () => connection.close();
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await step<string>(connection, (done) => {
      if (connection.destroyed) return done(new Error("the connection was closed"));
      if (signal.aborted) return abort();
      const commands = connection as unknown as SmtpCommands;
      // oxlint-disable no-underscore-dangle
      commands._responseActions.push((response) => done(null, response));
      commands._sendCommand(command);
      // oxlint-enable no-underscore-dangle
    });
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Asks the SMTP server whether this login may send from our address: the envelope of a mail to the address itself, which
 *  is reset before its content. Servers may refuse the sender with either of the two commands. */
async function refusedSender(
  { smtp, imap }: EmailConfig,
  address: string,
  pool: SmtpPool,
  signal: AbortSignal,
): Promise<readonly ChannelFinding[]> {
  if (!/^[\x21-\x7e]+$/.test(address) || /[<>]/.test(address)) return [];
  const refusal = async ({ connection }: PooledConnection): Promise<string | null> => {
    const mail = await ask(connection, `MAIL FROM:<${address}>`, signal);
    const rcpt = mail.startsWith("2") ? await ask(connection, `RCPT TO:<${address}>`, signal) : null;
    const reset = rcpt?.startsWith("2") ? await ask(connection, "RSET", signal) : null;
    // Any other response ends the dialogue: further commands have no meaning, and the server may be closing the connection.
    if (!reset?.startsWith("2")) connection.close();
    if (rcpt === null) return mail.startsWith("5") ? mail : null;
    return concernsSender(rcpt) ? rcpt : null;
  };
  // That the server cannot be reached is reported by the probe.
  const response = await pool.use(signal, refusal, true).catch(() => null);
  if (response === null) return [];
  const text = response.slice(0, 300).replace(/[^\x20-\x7e]+/g, " ");
  const message = `the SMTP server refuses mail from ${address} with the login ${smtp.user ?? imap.user}: ${text}`;
  const fix = "let the provider allow this address for the login (alias, send as), or set address to one of its own";
  return [{ id: "sender-refused", severity: "error", message, fix }];
}

/** True for a response to RCPT that refuses the sender for good: by its enhanced code (RFC 3463, 3.2; 5.7.60 is Exchange's
 *  for a missing "send as"), or by its words without the addresses in them. Others refuse the recipient, or relaying. */
function concernsSender(response: string): boolean {
  if (!response.startsWith("5") || response.startsWith("503")) return false;
  const words = response.slice(0, 1000).replace(/[^\s<>@]{1,64}@[^\s<>@]{1,255}/g, "");
  return /\b5\.(?:1\.[78]|7\.60)\b|\bsender\b|\bsend as\b|\bmail from\b|\bfrom address\b|\bnot owned\b/i.test(words);
}

function capabilities(client: ImapFlow, { imap, mark }: EmailConfig): ChannelFinding[] {
  const wanted = [
    ["IDLE", `new mail is found by polling every ${imap.poll / 1000} s only`],
    ...(mark.with === "move" ? [["MOVE", "moved mail is copied and deleted"] as const] : []),
    ["UIDPLUS", "copies of sent mail are found by a search"],
  ] as const;
  const missing = wanted.filter(([name]) => !client.capabilities.has(name));
  if (missing.length === 0) return [];
  const effects = missing.map(([name, effect]) => `${name} (${effect})`).join(", ");
  return [
    {
      id: "imap-capability-missing",
      severity: "info",
      message: `the server at ${imap.host} does not offer ${effects}`,
      fix: "nothing is lost; use a server with these extensions if the delay matters",
    },
  ];
}

function validity(client: ImapFlow, committed: Cursor | null): ChannelFinding[] {
  if (committed === null) return [];
  const before = readPosition(committed).uidValidity;
  const after = validityOf(client);
  if (before === after) return [];
  return [
    {
      id: "uidvalidity-changed",
      severity: "warning",
      message: `UIDVALIDITY of the mailbox has changed from ${before} to ${after} since the daemon last read it: the mailbox was restored or created again`,
      fix: "start the daemon: it looks through the mailbox again and recognizes answered mail; then look at inbox list",
    },
  ];
}

async function newest(client: ImapFlow, { imap }: EmailConfig, quiet: number, now: number): Promise<ChannelFinding[]> {
  const uid = await lastUid(client);
  const isEmpty = uid === 0 || client.mailbox === false || client.mailbox.exists === 0;
  const found = isEmpty ? false : await client.fetchOne("*", { internalDate: true });
  const at = found === false || found.internalDate === undefined ? null : new Date(found.internalDate);
  const age = at === null ? null : now - at.getTime();
  if (age !== null && age < quiet) return [];
  const days = age === null ? null : Math.floor(age / day);
  const since =
    days === null
      ? "contains no email"
      : `has received no email for ${days} days (since ${at?.toISOString().slice(0, 10)})`;
  return [
    {
      id: "mailbox-silent",
      severity: "warning",
      message: `the mailbox ${imap.mailbox} ${since}`,
      fix: "send an email to the address; if it does not arrive, check the MX record, filters and forwarding rules of the mailbox, and imap.mailbox",
    },
  ];
}

interface Signature {
  readonly domain: string;
  readonly selector: string;
}

/** Returns the DKIM signature of the newest mail from our address: in the Sent folder, or in the mailbox itself. A copy
 *  in the Sent folder is signed only by servers that file their own copies. */
async function newestSignature(client: ImapFlow, { imap }: EmailConfig, address: string): Promise<Signature | null> {
  const sent = (await client.list()).find(({ specialUse }) => specialUse === "\\Sent")?.path;
  for (const box of [imap.mailbox, ...(sent === undefined ? [] : [sent])]) {
    await client.mailboxOpen(box, { readOnly: true });
    if (client.mailbox === false || client.mailbox.exists === 0) continue;
    const uids = await client.search({ from: address, header: { "dkim-signature": "" } }, { uid: true });
    const uid = Array.isArray(uids) ? uids.at(-1) : undefined;
    if (uid === undefined) continue;
    const [fields] = await headerFields(client, [uid], ["dkim-signature"]);
    const found = signatureOf(fields?.get("dkim-signature") ?? "");
    if (found !== null) return found;
  }
  return null;
}

/** Parses the tags `d` and `s` of a DKIM-Signature field (RFC 6376, 3.5). */
function signatureOf(field: string): Signature | null {
  const tags = new Map<string, string>();
  for (const tag of field.slice(0, 10_000).split(";")) {
    const cut = tag.indexOf("=");
    if (cut > 0) tags.set(tag.slice(0, cut).trim(), tag.slice(cut + 1).trim());
  }
  const [domain, selector] = [tags.get("d") ?? "", tags.get("s") ?? ""];
  return /^[\w.-]+$/.test(domain) && /^[\w.-]+$/.test(selector) ? { domain, selector } : null;
}

/** Checks the records by which receiving servers judge mail from this domain. */
async function sender(
  config: EmailConfig,
  domain: string,
  signature: Signature | null,
  answerMs: number,
): Promise<ChannelFinding[]> {
  const resolver = new Resolver({ timeout: answerMs, tries: 2 });
  const { dns } = config.sender_auth;
  if (dns !== undefined) resolver.setServers(dns);
  const texts = async (name: string, prefix: RegExp): Promise<string[]> =>
    (await resolver.resolveTxt(name).catch(absent)).map((parts) => parts.join("")).filter((text) => prefix.test(text));
  try {
    const spf = await texts(domain, /^v=spf1(?: |$)/i);
    // Loaded on demand: the running daemon imports this file as well.
    const { getDomain } = await import("tldts");
    const organization = getDomain(domain) ?? domain;
    const own = await texts(`_dmarc.${domain}`, /^v=DMARC1/i);
    const dmarc = own.length > 0 || organization === domain ? own : await texts(`_dmarc.${organization}`, /^v=DMARC1/i);
    return [
      ...spfFindings(domain, spf),
      ...dmarcFindings(organization, dmarc),
      ...dkimFindings(
        domain,
        signature,
        signature && (await texts(`${signature.selector}._domainkey.${signature.domain}`, /(?:^|;)\s*p=[^;\s]/i)),
      ),
    ];
  } catch (error) {
    const message = `the DNS records of ${domain} cannot be read: ${(error as Error).message}`;
    const fix = "check the name servers of this machine, or name others in sender_auth.dns";
    return [{ id: "dns-unreachable", severity: "warning", message, fix }];
  }
}

/** A missing record is a result; an unreachable server is not. */
function absent(error: NodeJS.ErrnoException): string[][] {
  if (error.code === "ENOTFOUND" || error.code === "ENODATA") return [];
  throw error;
}

function spfFindings(domain: string, records: readonly string[]): ChannelFinding[] {
  if (records.length === 1) return [];
  const message =
    records.length === 0
      ? `${domain} has no SPF record: receiving servers cannot check who may send for it`
      : `${domain} has ${records.length} SPF records: receiving servers ignore all of them (RFC 7208, 4.5)`;
  const fix = `publish one TXT record at ${domain}, such as "v=spf1 include:<your provider> ~all"`;
  return [{ id: "spf-missing", severity: "warning", message, fix }];
}

function dmarcFindings(domain: string, records: readonly string[]): ChannelFinding[] {
  if (records.length === 1) return [];
  const message = `${domain} has ${records.length === 0 ? "no DMARC record" : "several DMARC records"}: large providers reject mail of such domains`;
  const fix = `publish a TXT record at _dmarc.${domain}: "v=DMARC1; p=none; rua=mailto:postmaster@${domain}"`;
  return [{ id: "dmarc-missing", severity: "warning", message, fix }];
}

function dkimFindings(domain: string, signature: Signature | null, keys: readonly string[] | null): ChannelFinding[] {
  if (signature === null || keys === null) {
    return [
      {
        id: "dkim-unknown",
        severity: "info",
        message: `whether mail from ${domain} is signed is unknown: neither the mailbox nor the Sent folder contains a signed copy`,
        fix: "send an email from the address to itself, then run this command again",
      },
    ];
  }
  const name = `${signature.selector}._domainkey.${signature.domain}`;
  if (keys.length > 0) return [];
  return [
    {
      id: "dkim-key-missing",
      severity: "error",
      message: `mail is signed with the DKIM key ${name}, which is not in the DNS: the signatures are invalid`,
      fix: `publish the TXT record ${name} that your mail provider shows`,
    },
  ];
}
