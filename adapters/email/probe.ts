// Logs in to IMAP and SMTP and lists the folders, for `doctor --online`. Sends no message and changes nothing.

import type { Channel, ChannelStatus, Probed } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import { type ConnectionOptions, openConnection } from "./imap/connection.ts";
import { isTokenFailure } from "./oauth.ts";
import type { SmtpPool } from "./smtp/connection.ts";
import { brief, oneLine, statusOf } from "./status.ts";

type Side = "imap" | "smtp";

/** Probes both sides concurrently. Returns the worse status, with both in `parts`. Never rejects. */
export async function probe(
  channel: Channel,
  config: EmailConfig,
  imap: ConnectionOptions,
  pool: SmtpPool,
  signal: AbortSignal,
): Promise<ChannelStatus & { readonly parts: readonly Probed[] }> {
  const parts = await Promise.all([
    readable(channel, config, imap, signal).catch((error: unknown) => failed("imap", config, error)),
    // On a connection of its own: an idle one shows nothing about the login.
    pool
      .use(signal, async (): Promise<Probed> => ({ part: "smtp", status: { state: "ready" } }), true)
      .catch((error: unknown) => failed("smtp", config, error)),
  ]);
  const worst = parts.reduce((bad, part) => (rank(part) > rank(bad) ? part : bad));
  const { status } = worst;
  return { ...status, ...("reason" in status && { reason: `${worst.part}: ${status.reason}` }), parts };
}

const rank = ({ status }: Probed): number => ["ready", "connecting", "degraded", "unauthorized"].indexOf(status.state);

async function readable(
  channel: Channel,
  config: EmailConfig,
  imap: ConnectionOptions,
  signal: AbortSignal,
): Promise<Probed> {
  const { client } = await openConnection(imap, signal);
  try {
    const folders = (await client.list()).map(({ path }) => path);
    const missing = wantedFolders(config).find(([, folder]) => !has(folders, folder));
    if (missing !== undefined) {
      const [key, folder] = missing;
      const reason = `there is no folder ${folder}`;
      const fix = `set ${key} to one of: ${folders.map(oneLine).join(", ")}`;
      return { part: "imap", status: { state: "degraded", code: "mailbox", reason }, fix };
    }
    const box = await client.mailboxOpen(config.imap.mailbox, { readOnly: true });
    const capabilities = ["IDLE", "MOVE", "UIDPLUS"].filter((name) => client.capabilities.has(name));
    channel.log.info({ mails: box.exists, capabilities: capabilities.join(" ") }, "mailbox opened");
    return { part: "imap", status: { state: "ready" } };
  } finally {
    client.close();
  }
}

/** The folders that the configuration names, each with its key. */
const wantedFolders = ({ imap, mark, sent_folder: sent }: EmailConfig): readonly (readonly [string, string])[] => [
  ["imap.mailbox", imap.mailbox],
  ...(mark.with === "move" ? [["mark.folder", mark.folder] as const] : []),
  ...(sent === "auto" || sent === "none" ? [] : [["sent_folder", sent] as const]),
];

/** INBOX is case-insensitive (RFC 3501, 5.1); all other folder names are case-sensitive. */
const has = (folders: readonly string[], wanted: string): boolean =>
  folders.some((folder) => folder === wanted || (/^inbox$/i.test(wanted) && /^inbox$/i.test(folder)));

function failed(part: Side, config: EmailConfig, error: unknown): Probed {
  const status = statusOf(error, 1);
  const said = serverText(error);
  const reason = said === null || status.reason.includes(said) ? status.reason : `${status.reason}: "${said}"`;
  return { part, status: { ...status, reason }, fix: remedy(part, config, error, status.code) };
}

/** Returns the text of the server's response on one line; null without a response. */
function serverText(error: unknown): string | null {
  const { responseText, response } = (error ?? {}) as { responseText?: unknown; response?: unknown };
  const text = [response, responseText].find((one) => typeof one === "string" && one.trim() !== "");
  return typeof text === "string" ? oneLine(text) : null;
}

/** Returns the suggested remedy in terms of the configuration keys. */
function remedy(side: Side, config: EmailConfig, error: unknown, code: string): string {
  const { smtp } = config;
  const { host, port, tls } = config[side];
  const borrowed = side === "smtp" && smtp.password === undefined && smtp.oauth2 === undefined;
  const login = borrowed ? "imap" : side;
  if (isTokenFailure(error)) return `check ${login}.oauth2: token_url, client_id, client_secret, refresh_token, scope`;
  if (code === "throttled") return "wait some minutes, and check that no other program logs in all the time";
  if (code === "server") return `try again later, or ask the operator of ${host}`;
  if (code === "login") {
    const keys = `${login}.user and ${login}.${config[login].oauth2 ? "oauth2" : "password"}`;
    const own = borrowed ? ", or give smtp.user and smtp.password" : "";
    const app = /(gmail|google|icloud|me|yahoo|aol|fastmail)\.com$/i.test(host)
      ? " (it has to be an app password)"
      : "";
    return `check ${keys}${app}${own}`;
  }
  const text = brief(error);
  if (code === "tls" && /wrong version number|packet length|record layer/i.test(text))
    return `${side}.tls: ${tls} does not go with ${side}.port: ${port}`;
  if (code === "tls" && /self.signed|unable to (verify|get)|issuer/i.test(text))
    return `set ${side}.ca to the CA that signed the certificate`;
  if (code === "tls" && /altnames|hostname/i.test(text)) return `set ${side}.host to a name in the certificate`;
  if (code === "tls" && /not yet valid/i.test(text)) return "correct the clock of this machine";
  if (code === "tls" && /expired/i.test(text))
    return `renew the certificate of ${host}, or correct the clock of this machine`;
  if (code === "tls") return `check ${side}.tls and ${side}.port`;
  if (/ENOTFOUND|EAI_AGAIN|EDNS/.test(text)) return `check ${side}.host: ${host} is not in the DNS`;
  if (/ECONNREFUSED/.test(text)) return `check ${side}.port: nothing listens on ${port} at ${host}`;
  return `check ${side}.host, ${side}.port and ${side}.tls, and whether a firewall is in between`;
}
