// Opens one SMTP connection: connects, starts TLS and logs in.

import SMTPConnection from "nodemailer/lib/smtp-connection";
import XOAuth2 from "nodemailer/lib/xoauth2";
import type { EmailConfig } from "../config.ts";
import { privateCa } from "../imap/connection.ts";
import type { TokenSource } from "../oauth.ts";

export interface SmtpOptions {
  readonly smtp: EmailConfig["smtp"];
  /** Null when the configuration has no login. */
  readonly login: {
    readonly user: string;
    readonly password: string;
    readonly tokens: TokenSource | null;
  } | null;
}

/** A connection to the server, used by one piece of work at a time. */
export interface PooledConnection {
  readonly connection: SMTPConnection;
  /** False when the connection was just opened. */
  readonly used: boolean;
  /** True when the server offers SMTPUTF8 (RFC 6531). */
  readonly utf8: boolean;
  /** Number of messages that the connection has carried. */
  readonly sent: number;
}

/** Rejects with the error of nodemailer or of the token endpoint. */
export async function openSmtp({ smtp, login }: SmtpOptions, signal: AbortSignal): Promise<PooledConnection> {
  const ca = await privateCa(smtp.ca);
  const connection = new SMTPConnection({
    host: smtp.host,
    port: smtp.port,
    secure: smtp.tls === "implicit",
    // TLS is never opportunistic: a missing STARTTLS is an error, and the client does not continue in clear text.
    requireTLS: smtp.tls === "starttls",
    ignoreTLS: smtp.tls === "none",
    ...(ca === null ? {} : { tls: { ca } }),
    connectionTimeout: Math.min(30_000, smtp.timeout),
    greetingTimeout: Math.min(30_000, smtp.timeout),
    socketTimeout: smtp.timeout,
    socketCloseTimeout: 1000,
    maxResponseSize: 100_000,
    logger: false,
  });
  // This handler stays attached, because an `error` event on an idle connection must not end the process.
  connection.on("error", () => {});
  const abort = () => connection.close();
  signal.addEventListener("abort", abort, { once: true });
  try {
    await step(connection, (done) => connection.connect(() => done(null)));
    // The last response is the one to EHLO; after STARTTLS it is the second EHLO response.
    const utf8 = /^250[ -]SMTPUTF8\b/im.test(connection.lastServerResponse || "");
    if (login !== null) await step(connection, (done) => connection.login(credentials(login), (error) => done(error)));
    signal.throwIfAborted();
    return { connection, used: false, utf8, sent: 0 };
  } catch (error) {
    connection.close();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function credentials(login: NonNullable<SmtpOptions["login"]>) {
  const { user, password, tokens } = login;
  if (tokens === null) return { user, credentials: { user, pass: password } };
  const oauth2 = new XOAuth2({
    user,
    provisionCallback: (_user, renew, done) => void provide(tokens, renew, done),
  });
  return { user, oauth2, method: "XOAUTH2" };
}

async function provide(
  tokens: TokenSource,
  fresh: boolean,
  done: (error: Error | null, token?: string, expiresAt?: number) => void,
): Promise<void> {
  try {
    const token = await tokens.get({ fresh });
    done(null, token.value, token.expiresAt);
  } catch (error) {
    done(error as Error);
  }
}

/** Runs one SMTP step. It ends by its callback, by an error of the connection, or when the connection closes. */
function step(
  connection: SMTPConnection,
  begin: (done: (error: Error | null | undefined) => void) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (error: Error | null | undefined) => {
      connection.off("error", stop);
      connection.off("end", ended);
      if (error) reject(error);
      else resolve();
    };
    const ended = () => stop(Object.assign(new Error("the server closed the connection"), { code: "ECONNECTION" }));
    connection.on("error", stop);
    connection.once("end", ended);
    begin(stop);
  });
}
