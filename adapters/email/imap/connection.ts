// Opens one IMAP connection and logs in. imapflow clients are never reused: every reconnect opens a new one.

import { readFile } from "node:fs/promises";
import { ImapFlow } from "imapflow";
import type { EmailConfig } from "../config.ts";
import type { AccessToken, TokenSource } from "../oauth.ts";
import type { EmailTiming } from "../timing.ts";

export interface ImapConnection {
  readonly client: ImapFlow;
  /** Epoch ms at which the login's token expires and the server may close the connection; null with a password. */
  readonly loginEndsAt: number | null;
  /** Resolves when the connection is closed for any reason, with the error if there was one. */
  readonly closed: Promise<Error | null>;
}

export interface ConnectionOptions {
  readonly imap: EmailConfig["imap"];
  readonly timing: EmailTiming;
  /** The largest message source that is requested, in bytes. */
  readonly maxSource: number;
  readonly tokens: TokenSource | null;
}

/** Buffer for protocol data around a message, in bytes. */
const framing = 1_000_000;

/** Connects and logs in; stops early when the signal aborts. Rejects with errors of imapflow or of the
 *  token endpoint. */
export async function openConnection(options: ConnectionOptions, signal: AbortSignal): Promise<ImapConnection> {
  const { imap } = options;
  const token = (await options.tokens?.get()) ?? null;
  try {
    return await attempt(options, token, signal);
  } catch (error) {
    // The issuer may have revoked the cached token. The response to a new token request shows whether the
    // grant is still valid.
    const rejected = (error as { authenticationFailed?: boolean }).authenticationFailed === true;
    if (!rejected || options.tokens === null || signal.aborted || imap.oauth2 === undefined) throw error;
    return attempt(options, await options.tokens.get({ fresh: true }), signal);
  }
}

async function attempt(
  { imap, timing, maxSource }: ConnectionOptions,
  token: AccessToken | null,
  signal: AbortSignal,
): Promise<ImapConnection> {
  const ca = await privateCa(imap.ca);
  const client = new ImapFlow({
    host: imap.host,
    port: imap.port,
    secure: imap.tls === "implicit",
    // With "starttls" a server that does not offer STARTTLS is refused; the client never continues in clear text.
    doSTARTTLS: imap.tls === "starttls",
    auth: { user: imap.user, ...(token ? { accessToken: token.value } : { pass: imap.password ?? "" }) },
    tls: ca === null ? {} : { ca },
    clientInfo: { name: "bridgehead" },
    logger: false,
    // Hundreds of mailboxes share a process. Compression would allocate a zlib window for each, and
    // extensions would enlarge every response.
    disableCompression: true,
    disableAutoEnable: true,
    // The reader starts IDLE itself, immediately after a sweep.
    disableAutoIdle: true,
    missingIdleCommand: "NOOP",
    maxIdleTime: imap.idle,
    connectionTimeout: timing.connect,
    greetingTimeout: timing.imapGreeting,
    socketTimeout: Math.max(timing.imapSilence, imap.poll * 3),
    maxLineLength: framing,
    maxLiteralSize: maxSource + framing,
    maxResponseSize: maxSource + 2 * framing,
    maxLockHoldTime: false,
  });
  const closed = ending(client);
  const abort = () => client.close();
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    await client.connect();
  } catch (error) {
    client.close();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
  return { client, loginEndsAt: token?.expiresAt ?? null, closed };
}

/** Listeners are attached before connect(), because an `error` event without a handler would end the process. */
function ending(client: ImapFlow): Promise<Error | null> {
  return new Promise((resolve) => {
    let first: Error | null = null;
    client.on("error", (error: Error) => {
      first ??= error;
    });
    client.on("close", () => resolve(first));
  });
}

/** Returns the text of a private CA, from a file or as configured; null for the public CAs. */
export async function privateCa(ca: string | undefined): Promise<string | null> {
  if (ca === undefined) return null;
  return ca.includes("-----BEGIN") ? ca : readFile(ca, "utf8");
}
