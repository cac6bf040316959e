// Checks of servers that need no login: the certificate of every TLS server, the clock of the platform, and our own
// public URL.

import { readFile } from "node:fs/promises";
import { connect as connectPlain, isIP, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { connect as connectTls, type PeerCertificate } from "node:tls";
import type { TlsServer } from "bridgehead/contract";
import { counted } from "../../domain/duration-text.ts";
import { get, hostPort } from "../http.ts";
import { probeLimit, type Requesting } from "../io.ts";
import { type Diagnosis, diagnosis } from "./catalogue.ts";

interface Shown {
  readonly certificate: PeerCertificate;
  /** Why the certificate is not trusted; null when it is. */
  readonly problem: string | null;
}

/** Returns problems of the server's certificate. A server that does not answer is reported by its own check. */
export async function certificateProblems(
  server: TlsServer,
  place: string,
  now: number,
  io: Requesting,
): Promise<Diagnosis[]> {
  const shown = await readCertificate(server, io).catch(() => null);
  if (shown === null) return [];
  const { certificate, problem } = shown;
  const address = hostPort(server.host, server.port);
  const at = `${place} (${address})`;
  const [begin, end] = [Date.parse(certificate.valid_from), Date.parse(certificate.valid_to)];
  const date = Number.isNaN(end) ? "an unknown date" : new Date(end).toISOString().slice(0, 10);
  const command = `openssl s_client -connect ${address}${starttls[server.tls]} </dev/null | openssl x509 -noout -dates -issuer`;
  if (!Number.isNaN(end) && end <= now)
    return [
      diagnosis(
        "certificate-expired",
        at,
        `its certificate expired on ${date}`,
        `renew it at the server; see: ${command}`,
      ),
    ];
  if (begin > now) {
    const cause = `its certificate is not valid before ${new Date(begin).toISOString()}, and the clock of this machine says ${new Date(now).toISOString()}`;
    return [diagnosis("certificate-untrusted", at, cause, `correct the clock: timedatectl; else see: ${command}`)];
  }
  if (problem !== null) {
    const cause = `its certificate is not trusted: ${problem}`;
    return [diagnosis("certificate-untrusted", at, cause, `${remedyOf(server.part)}; see: ${command}`)];
  }
  if (end - now > io.timing.commands.certificateSoon) return [];
  const days = Math.floor((end - now) / 86_400_000);
  const cause = `its certificate expires in ${counted(days, "day")}, on ${date}`;
  return [diagnosis("certificate-expiring", at, cause, `renew it at the server; see: ${command}`)];
}

/** For the two URLs that have no key for a CA: Node.js decides whom it trusts, and a provider whom it trusts. */
function remedyOf(part: string): string {
  if (part === "http.public_url") return "let the proxy show a certificate of a public CA for this name";
  if (part === "platform.url")
    return "name the CA that signed it in NODE_EXTRA_CA_CERTS (/etc/bridgehead/environment), or a host of the certificate in platform.url";
  return part.endsWith("url")
    ? `set ca to the CA that signed it, or ${part} to a name in it`
    : `set ${part}.ca to the CA that signed it, or ${part}.host to a name in it`;
}

const starttls = { implicit: "", "imap-starttls": " -starttls imap", "smtp-starttls": " -starttls smtp" };

/** Reads the server's certificate. Rejects when no TLS connection is established. */
async function readCertificate(server: TlsServer, io: Requesting): Promise<Shown> {
  const { host, port } = server;
  const limit = probeLimit(io);
  const ca = server.ca?.includes("-----BEGIN") ? server.ca : server.ca && (await readFile(server.ca, "utf8"));
  const base = connectPlain({ host, port });
  const abort = () => base.destroy(new Error("aborted"));
  limit.addEventListener("abort", abort, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      base.once("connect", resolve);
      base.once("error", reject);
    });
    if (server.tls !== "implicit") await requestTls(base, server.tls);
    return await new Promise<Shown>((resolve, reject) => {
      const secure = connectTls({
        socket: base,
        ...(isIP(host) === 0 && { servername: host }),
        host,
        ...(ca && { ca }),
        // The certificate is only read; nothing is sent over this connection.
        rejectUnauthorized: false,
      });
      secure.once("secureConnect", () => {
        const problem = secure.authorized ? null : String(secure.authorizationError);
        resolve({ certificate: secure.getPeerCertificate(), problem });
        secure.destroy();
      });
      secure.once("error", reject);
      base.once("close", () => reject(new Error("the connection was closed")));
    });
  } finally {
    limit.removeEventListener("abort", abort);
    base.destroy();
  }
}

const dialogues = {
  /** The greeting, then the response to the command (RFC 9051, 6.2.1). */
  "imap-starttls": [
    [/^\* /, "a STARTTLS\r\n"],
    [/^a OK/i, null],
  ],
  /** The greeting, the capabilities, then the response to the command (RFC 3207, 4). */
  "smtp-starttls": [
    [/^220 /, "EHLO bridgehead.invalid\r\n"],
    [/^250 /, "STARTTLS\r\n"],
    [/^220 /, null],
  ],
} as const;

/** Sends the commands before TLS. Rejects when the server refuses or closes the connection. */
async function requestTls(socket: Socket, tls: keyof typeof dialogues): Promise<void> {
  const lines = createInterface({ input: socket });
  const steps = [...dialogues[tls]];
  try {
    for await (const line of lines) {
      const [expected, command] = steps[0] ?? [/^/, null];
      if (!expected.test(line)) {
        if (/^(?:[45]\d\d|a (?:NO|BAD)|\* BYE)/i.test(line)) break;
        continue;
      }
      steps.shift();
      if (command === null) return;
      socket.write(command);
    }
    throw new Error("the server does not offer STARTTLS");
  } finally {
    lines.close();
    socket.removeAllListeners("data");
  }
}

/** Compares our clock with the Date header of the platform. */
export async function clockProblems(url: string, now: () => number, io: Requesting): Promise<Diagnosis[]> {
  const { clockSkew, clockSkewWorst } = io.timing.commands;
  const before = now();
  const response = await get(new URL(url), io).catch(() => null);
  const date = Date.parse(response?.date ?? "");
  if (Number.isNaN(date)) return [];
  const after = now();
  // The header has whole seconds, and was written between the two readings.
  const skew = date + 1000 < before ? before - date : date > after ? date - after : 0;
  if (skew < clockSkew) return [];
  const seconds = Math.round(skew / 1000);
  const cause = `the clock of this machine differs by ${seconds} s from that of ${new URL(url).host}`;
  const severity = skew >= clockSkewWorst ? "error" : "warning";
  return [diagnosis("clock-skew", "this machine", cause, "sudo timedatectl set-ntp true", { severity })];
}

/** Asks for /healthz below our own public URL. A firewall may refuse this machine and accept the provider, so the remedy is
 *  a command for another machine. `runs`: whether the daemon answers on this machine. */
export async function publicUrlProblems(publicUrl: string, runs: boolean, io: Requesting): Promise<Diagnosis[]> {
  const url = new URL(`${publicUrl}/healthz`);
  const result = await get(url, io).catch((error: NodeJS.ErrnoException) => error);
  if (!(result instanceof Error) && result.status === 200 && result.body.includes('"ok"')) return [];
  // A proxy answers without the daemon as well. A URL without a proxy refuses the connection, or resets it when the check of
  // the ports had bound its port.
  if (!runs && (!(result instanceof Error) || /^ECONN(?:REFUSED|RESET)$/.test(String(result.code)))) {
    const cause = `whether ${url.href} reaches the daemon is unknown: no daemon runs with this configuration`;
    const remedy = "start the daemon, and repeat this command";
    return [diagnosis("public-url-unreachable", "http.public_url", cause, remedy, { severity: "warning" })];
  }
  const cause =
    result instanceof Error
      ? `${url.href} cannot be reached from here: ${result.message}`
      : `${url.href} is not answered by the daemon (HTTP ${result.status})`;
  const remedy = `let the reverse proxy pass requests to http.listen; try from another machine: curl -i ${url.href}`;
  return [diagnosis("public-url-unreachable", "http.public_url", cause, remedy)];
}
