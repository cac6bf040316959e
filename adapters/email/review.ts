// Checks the configuration of an email channel across keys that are valid individually. Called by `check`
// and at every start.

import type { Remark } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import { serversOf } from "./providers.ts";

/** Ports that are registered for one kind of TLS (RFC 8314; RFC 6409). */
const registered: Readonly<Record<number, "implicit" | "starttls">> = {
  993: "implicit",
  143: "starttls",
  465: "implicit",
  587: "starttls",
  25: "starttls",
};

const ports = { imap: { implicit: 993, starttls: 143 }, smtp: { implicit: 465, starttls: 587 } } as const;

/** Called with a parsed configuration block. Pure. */
export function review(config: EmailConfig): readonly Remark[] {
  return [
    ...wrongTls("imap", config),
    ...wrongTls("smtp", config),
    ...wrongServers(config),
    ...password(config),
  ];
}

function wrongTls(side: "imap" | "smtp", config: EmailConfig): readonly Remark[] {
  const { port, tls } = config[side];
  const expected = registered[port];
  if (expected === undefined || tls === "none" || tls === expected) return [];
  const fix = `use tls: ${expected} with port ${port}, or port: ${ports[side][tls]} with tls: ${tls}`;
  return [error([side, "port"], `${port} does not go with tls: ${tls}`, fix)];
}

/** Detects an IMAP host in the SMTP block and the reverse, for known providers. */
function wrongServers({ imap, smtp }: EmailConfig): readonly Remark[] {
  const remarks: Remark[] = [];
  const reading = serversOf(imap.host);
  if (reading !== null && imap.host.toLowerCase() === reading.smtp)
    remarks.push(
      error(["imap", "host"], `${imap.host} is the provider's SMTP server`, `use ${reading.imap}`),
    );
  const sending = serversOf(smtp.host);
  if (sending !== null && smtp.host.toLowerCase() === sending.imap)
    remarks.push(
      error(["smtp", "host"], `${smtp.host} is the provider's IMAP server`, `use ${sending.smtp}`),
    );
  return remarks;
}

function password({ imap }: EmailConfig): readonly Remark[] {
  if (imap.password === undefined || serversOf(imap.host)?.passwords !== false) return [];
  const fix = "replace it by oauth2: { token_url: microsoft, client_id: ..., refresh_token: ... }";
  return [error(["imap", "password"], "Microsoft takes no passwords for IMAP any more", fix)];
}

const error = (path: Remark["path"], message: string, fix: string): Remark => ({
  severity: "error",
  path,
  message,
  fix,
});
