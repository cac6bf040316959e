// Performs one attempt to send a draft, over a pool of SMTP connections that are logged in. Connections are opened
// on demand, reused for one message after the other, and closed when idle.

import { Readable } from "node:stream";
import { type Attempt, externalId, fileRef, type Health, type SendOutcome } from "bridgehead/contract";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import XOAuth2 from "nodemailer/lib/xoauth2";
import PQueue from "p-queue";
import type { EmailConfig } from "../config.ts";
import { privateCa } from "../imap/connection.ts";
import { isTokenFailure, type TokenSource } from "../oauth.ts";
import { isLogin, outcomeOf, type SmtpFailure, statusOf } from "../status.ts";
import { type EmailDraft, messageBytes } from "./compose.ts";

export interface SenderOptions {
  readonly pool: SmtpPool;
  readonly health: Health;
  /** Called with the message's bytes after the server accepted it. Must not throw. */
  readonly sent: (draft: EmailDraft, bytes: Buffer) => void;
}

/** Implements `Outbound.send`, with the parsed draft. */
export function sender(
  options: SenderOptions,
): (draft: EmailDraft, attempt: Attempt) => Promise<SendOutcome> {
  const { pool, health } = options;
  let loginFailures = 0;

  return async (draft, attempt) => {
    const files: Uint8Array[] = [];
    for (const { ref } of draft.attachments) files.push(await attempt.read(fileRef(ref)));
    const bytes = await messageBytes(draft, files);
    let outcome = await once(pool, draft, bytes, attempt, false);
    // The server had silently closed the idle connection. Nothing was sent, so retry once on a new
    // connection.
    if (outcome.stale && !attempt.signal.aborted) outcome = await once(pool, draft, bytes, attempt, true);
    const { error, result } = outcome;
    if (error !== null && (isTokenFailure(error) || isLogin(error as SmtpFailure))) {
      loginFailures += 1;
      health.set("smtp", statusOf(error, loginFailures));
    } else if (outcome.loggedIn) {
      loginFailures = 0;
      health.set("smtp", { state: "ready" });
    } else if (!attempt.signal.aborted) health.set("smtp", statusOf(error, 1));
    if (result.kind === "sent") options.sent(draft, bytes);
    return result;
  };
}

interface Once {
  readonly result: SendOutcome;
  readonly error: unknown;
  readonly loggedIn: boolean;
  readonly stale: boolean;
}

async function once(
  pool: SmtpPool,
  draft: EmailDraft,
  bytes: Buffer,
  attempt: Attempt,
  fresh: boolean,
): Promise<Once> {
  const state: { pooled: PooledConnection | null; crossed: boolean } = { pooled: null, crossed: false };
  const work = async (pooled: PooledConnection): Promise<SendOutcome> => {
    state.pooled = pooled;
    const envelope = envelopeOf(draft, bytes.length);
    if (!pooled.utf8 && [envelope.from, ...envelope.to].some((address) => /[^\x00-\x7f]/.test(address)))
      return noUtf8;
    const info = await transmit(pooled, envelope, bytes, attempt, () => {
      state.crossed = true;
    });
    return taken(draft, info);
  };
  try {
    const result = await pool.use(attempt.signal, work, fresh);
    return { result, error: null, loggedIn: true, stale: false };
  } catch (error) {
    const { pooled, crossed } = state;
    const result = reached(outcomeOf(error, crossed), pooled !== null);
    const stale = pooled?.used === true && !crossed && (error as SmtpFailure).responseCode === undefined;
    return { result, error, loggedIn: pooled !== null, stale };
  }
}

/** Without a connection no message can be sent. The deferral applies to the channel, so one attempt at a
 *  time tests whether the server is back. */
function reached(outcome: SendOutcome, connected: boolean): SendOutcome {
  if (connected || outcome.kind !== "deferred" || outcome.scope !== undefined) return outcome;
  return { ...outcome, scope: "channel", cause: "unreachable" };
}
/** Code X.6.7 of the registry of RFC 5248. A server without the extension would reject the address or
 *  corrupt it. */
const noUtf8: SendOutcome = {
  kind: "refused",
  code: "5.6.7",
  reason: "an address has a local part outside ASCII, and the SMTP server does not offer SMTPUTF8 (RFC 6531)",
  scope: "draft",
};

interface Info {
  readonly response: string;
  readonly rejected: readonly string[];
  readonly serverMessageId?: string | undefined;
}

/** Runs the dialogue from MAIL to the response after the final dot. The crossing is awaited when the last
 *  byte of the message is written and only the final dot is missing. Before that point a server must not
 *  deliver anything. */
function transmit(
  { connection }: PooledConnection,
  envelope: ReturnType<typeof envelopeOf>,
  bytes: Buffer,
  attempt: Attempt,
  crossed: () => void,
): Promise<Info> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(Object.assign(new Error("the attempt ran out of time"), { code: "ETIMEDOUT" }));
      connection.close();
    };
    const fail = (error: Error) => reject(error);
    const ended = () => fail(Object.assign(new Error("the server closed the line"), { code: "ECONNECTION" }));
    attempt.signal.addEventListener("abort", abort, { once: true });
    connection.on("error", fail);
    connection.on("end", ended);
    const message = Readable.from(
      (async function* () {
        yield bytes;
        await attempt.crossing();
        crossed();
      })(),
      { objectMode: false },
    );
    connection.send(envelope, message, (error, info) => {
      attempt.signal.removeEventListener("abort", abort);
      connection.off("error", fail);
      connection.off("end", ended);
      if (error) reject(error);
      else resolve(info);
    });
  });
}

/** `compose` wrote the domains as A-labels, because servers without SMTPUTF8 accept no others (RFC 6531, 3.2). */
function envelopeOf(draft: EmailDraft, size: number) {
  return {
    from: draft.envelopeFrom,
    to: [...draft.to, ...draft.cc].map((party) => party.address),
    size,
    // Bounces then name the draft, where the server supports the DSN extension.
    dsn: { ret: "HDRS", envid: draft.key, notify: "FAILURE" },
  };
}

/** Characters of the server's response that are stored with the attempt. It contains the server's queue id. */
const longestResponse = 500;

/** With several recipients the server may refuse some and accept the message for the others. */
function taken(draft: EmailDraft, info: Info): SendOutcome {
  const refused = new Set(info.rejected.map((address) => address.toLowerCase()));
  if (refused.size > 0 && draft.to.every(({ address }) => refused.has(address.toLowerCase()))) {
    const reason = "the recipient was refused; only the copies were taken";
    return { kind: "refused", code: "recipient", reason, scope: "recipient" };
  }
  const replaced = info.serverMessageId === undefined ? draft.messageId : bracketed(info.serverMessageId);
  return {
    kind: "sent",
    id: externalId(draft.messageId),
    ...(replaced === draft.messageId ? {} : { also: [externalId(replaced)] }),
    detail: [
      info.response.trim().slice(0, longestResponse),
      ...(refused.size > 0 ? [`${refused.size} of the recipients were refused`] : []),
    ].join("; "),
  };
}

function bracketed(id: string): string {
  return id.startsWith("<") ? id : `<${id}>`;
}

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

/** In ms. Providers close idle connections after minutes; reusing an older one would only cause a failed
 *  attempt. */
const idleLimit = 20_000;
/** Same value as nodemailer's pool: some servers limit the messages per connection. */
const messageLimit = 100;

/** The connections to one server. Opens none until the first request. */
export class SmtpPool {
  /** Maximum number of connections. */
  readonly connections: number;
  readonly #options: SmtpOptions;
  readonly #queue: PQueue;
  /** The newest is last. A connection leaves the list when its `reused` aborts. */
  readonly #idle: { readonly pooled: PooledConnection; readonly reused: AbortController }[] = [];
  #closed = false;

  constructor(options: SmtpOptions) {
    this.#options = options;
    this.connections = options.smtp.connections;
    this.#queue = new PQueue({ concurrency: this.connections });
  }

  /** Waits for a free slot, then calls `work` with an idle connection or a new one. Keeps the connection
   *  for later work when `work` resolves, and closes it when `work` rejects. Rejects with the error of
   *  `work`, of nodemailer or of the token endpoint, or with the signal's reason. `fresh` never uses an
   *  idle connection. */
  use<T>(signal: AbortSignal, work: (pooled: PooledConnection) => Promise<T>, fresh = false): Promise<T> {
    // Only for the wait: p-queue would free the slot of running work at an abort, before the work ends.
    const waiting = new AbortController();
    const leave = () => waiting.abort(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    const run = async () => {
      signal.removeEventListener("abort", leave);
      const pooled = (fresh ? null : this.#reuse()) ?? (await open(this.#options, signal));
      try {
        const result = await work(pooled);
        this.#release(pooled);
        return result;
      } catch (error) {
        pooled.connection.close();
        throw error;
      }
    };
    return this.#queue.add(run, { signal: waiting.signal });
  }

  /** Closes the idle connections; a connection in use is closed when its work ends. */
  close(): void {
    this.#closed = true;
    for (let one = this.#reuse(); one !== null; one = this.#reuse()) one.connection.quit();
  }

  #reuse(): PooledConnection | null {
    for (let entry = this.#idle.pop(); entry !== undefined; entry = this.#idle.pop()) {
      entry.reused.abort("reused"); // a reason avoids the default error object and its stack trace
      if (!entry.pooled.connection.destroyed) return { ...entry.pooled, used: true };
    }
    return null;
  }

  /** Keeps the connection, unless it has carried enough messages or is no longer needed. */
  #release(pooled: PooledConnection): void {
    const { connection } = pooled;
    const sent = pooled.sent + 1;
    if (this.#closed || sent >= messageLimit || connection.destroyed) return connection.close();
    const entry = { pooled: { ...pooled, sent }, reused: new AbortController() };
    this.#idle.push(entry);
    const tooLong = () => {
      this.#idle.splice(this.#idle.indexOf(entry), 1);
      if (connection.destroyed) connection.close();
      else connection.quit();
    };
    AbortSignal.timeout(idleLimit).addEventListener("abort", tooLong, {
      once: true,
      signal: entry.reused.signal,
    });
  }
}

/** Connects, starts TLS and logs in. */
async function open({ smtp, login }: SmtpOptions, signal: AbortSignal): Promise<PooledConnection> {
  const ca = await privateCa(smtp.ca);
  const connection = new SMTPConnection({
    host: smtp.host,
    port: smtp.port,
    secure: smtp.tls === "implicit",
    // TLS is never opportunistic: a missing STARTTLS is an error, and the client does not continue in clear
    // text.
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
    if (login !== null)
      await step(connection, (done) => connection.login(credentials(login), (error) => done(error)));
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

/** Runs one SMTP step. It ends by its callback, by an error of the connection, or when the connection
 *  closes. */
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
    const ended = () => stop(Object.assign(new Error("the server closed the line"), { code: "ECONNECTION" }));
    connection.on("error", stop);
    connection.once("end", ended);
    begin(stop);
  });
}
