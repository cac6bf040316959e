// SMTP connections. They are opened on demand (connect, TLS, login), reused for one message after the other, and closed
// when idle.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import XOAuth2 from "nodemailer/lib/xoauth2";
import PQueue from "p-queue";
import type { EmailConfig } from "../config.ts";
import { privateCa } from "../imap/connection.ts";
import type { TokenSource } from "../oauth.ts";
import type { SmtpFailure } from "../status.ts";
import type { EmailTiming } from "../timing.ts";

export interface SmtpOptions {
  readonly smtp: EmailConfig["smtp"];
  readonly timing: EmailTiming;
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

/** Same value as nodemailer's pool: some servers limit the messages per connection. */
const messageLimit = 100;

/** Result of a request whose connection the server refused while others were open. */
const noSlot = Symbol("no slot");

/** The connections to one server. Opens none until the first request. Uses fewer than configured while the server refuses
 *  more: servers count the connections of an account, also those of other programs. */
export class SmtpPool {
  /** True when the last attempt was logged in. The health of the channel then states that. */
  working = false;
  readonly #options: SmtpOptions;
  readonly #queue: PQueue;
  /** The newest is last. A connection leaves the list when it is reused, or when its time expires. */
  readonly #idle: { readonly pooled: PooledConnection; readonly expiry: NodeJS.Timeout }[] = [];
  /** Number of connections in use or being opened. */
  #busy = 0;
  /** Ends the time for which a refused connection is remembered. */
  #refused: NodeJS.Timeout | undefined;
  readonly #onRefusal: (error: unknown) => void;
  #closed = false;

  /** `onRefusal` is called when the server refuses a connection while others are open, and once until it has been asked for
   *  more again. */
  constructor(options: SmtpOptions, onRefusal: (error: unknown) => void) {
    this.#options = options;
    this.#onRefusal = onRefusal;
    this.#queue = new PQueue({ concurrency: options.smtp.connections });
  }

  /** Maximum number of connections that the server accepts now, as far as it is known. */
  get connections(): number {
    return this.#queue.concurrency;
  }

  /** Waits for a free slot, then calls `work` with an idle connection or a new one. Keeps the connection for later work
   *  when `work` resolves, and closes it when `work` rejects. Rejects with the error of `work`, of nodemailer or of the
   *  token endpoint, or with the signal's reason. `fresh` uses no idle connection, unless the server refuses a new one. */
  async use<T>(signal: AbortSignal, work: (pooled: PooledConnection) => Promise<T>, fresh = false): Promise<T> {
    let result = await this.#inSlot(signal, work, fresh);
    while (result === noSlot) result = await this.#inSlot(signal, work, false);
    return result;
  }

  #inSlot<T>(
    signal: AbortSignal,
    work: (pooled: PooledConnection) => Promise<T>,
    fresh: boolean,
  ): Promise<T | typeof noSlot> {
    /** Only for the wait: p-queue would free the slot of running work at an abort, before the work ends. */
    let waiting: AbortController | null = null;
    const leave = () => waiting?.abort(signal.reason);
    const run = async () => {
      signal.removeEventListener("abort", leave);
      this.#busy += 1;
      try {
        const pooled = (fresh ? null : this.#reuse()) ?? (await this.#open(signal));
        return pooled === null ? noSlot : await this.#carry(pooled, work);
      } finally {
        this.#busy -= 1;
      }
    };
    const isFree = this.#queue.size === 0 && this.#queue.pending < this.connections;
    if (isFree && !signal.aborted) return this.#queue.add(run);
    waiting = new AbortController();
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
    return this.#queue.add(run, { signal: waiting.signal });
  }

  async #carry<T>(pooled: PooledConnection, work: (pooled: PooledConnection) => Promise<T>): Promise<T> {
    try {
      const result = await work(pooled);
      this.#release(pooled);
      return result;
    } catch (error) {
      pooled.connection.close();
      throw error;
    }
  }

  /** Returns null when the server temporarily refuses a connection while others are open or being opened: from now on no
   *  more than these are opened. Nothing was sent, so the request waits for one of them. */
  async #open(signal: AbortSignal): Promise<PooledConnection | null> {
    try {
      return await openSmtp(this.#options, signal);
    } catch (error) {
      const others = this.#busy - 1 + this.#idle.length;
      const { responseCode = 0 } = error as SmtpFailure;
      if (others === 0 || signal.aborted || responseCode < 400 || responseCode >= 500) throw error;
      this.#queue.concurrency = Math.min(this.connections, others);
      if (this.#refused === undefined) this.#onRefusal(error);
      clearTimeout(this.#refused);
      const restore = () => {
        this.#queue.concurrency = this.#options.smtp.connections;
        this.#refused = undefined;
      };
      // oxlint-disable-next-line no-restricted-globals
      this.#refused = setTimeout(restore, this.#options.timing.smtpRefusal).unref();
      return null;
    }
  }

  /** Closes the idle connections; a connection in use is closed when its work ends. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#refused);
    for (let one = this.#reuse(); one !== null; one = this.#reuse()) one.connection.quit();
  }

  #reuse(): PooledConnection | null {
    for (let entry = this.#idle.pop(); entry !== undefined; entry = this.#idle.pop()) {
      clearTimeout(entry.expiry);
      if (!entry.pooled.connection.destroyed) return { ...entry.pooled, used: true };
    }
    return null;
  }

  /** Keeps the connection, unless it has carried enough messages or is no longer needed. */
  #release(pooled: PooledConnection): void {
    const { connection } = pooled;
    const sent = pooled.sent + 1;
    if (this.#closed || sent >= messageLimit || connection.destroyed) return connection.close();
    const tooLong = () => {
      this.#idle.splice(this.#idle.indexOf(entry), 1);
      if (connection.destroyed) connection.close();
      else connection.quit();
    };
    // Every message frees a connection. An AbortSignal.timeout stays for its whole time; this timer is cancelled.
    // oxlint-disable-next-line no-restricted-globals
    const expiry = setTimeout(tooLong, this.#options.timing.smtpIdle).unref();
    const entry = { pooled: { ...pooled, sent }, expiry };
    this.#idle.push(entry);
  }
}

/** Rejects with the error of nodemailer or of the token endpoint. */
async function openSmtp({ smtp, timing, login }: SmtpOptions, signal: AbortSignal): Promise<PooledConnection> {
  const ca = await privateCa(smtp.ca);
  const limit = Math.min(timing.connect, smtp.timeout);
  const socket = await dial(smtp, limit, signal);
  const connection = new SMTPConnection({
    connection: socket,
    host: smtp.host,
    port: smtp.port,
    secure: smtp.tls === "implicit",
    // TLS is never opportunistic: a missing STARTTLS is an error, and the client does not continue in clear text.
    requireTLS: smtp.tls === "starttls",
    ignoreTLS: smtp.tls === "none",
    ...(ca === null ? {} : { tls: { ca } }),
    connectionTimeout: limit,
    greetingTimeout: limit,
    socketTimeout: smtp.timeout,
    socketCloseTimeout: timing.smtpClose,
    maxResponseSize: 100_000,
    logger: false,
  });
  // This handler stays attached, because an `error` event on an idle connection must not end the process.
  connection.on("error", () => {});
  const abort = () => connection.close();
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    await step(connection, (done) => connection.connect(() => done(null)));
    // The last response is the one to EHLO; after STARTTLS it is the second EHLO response.
    const utf8 = /^250[ -]SMTPUTF8\b/im.test(connection.lastServerResponse || "");
    if (login !== null) await step(connection, (done) => connection.login(credentials(login), (error) => done(error)));
    signal.throwIfAborted();
    return { connection, used: false, utf8, sent: 0 };
  } catch (error) {
    connection.close();
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Connects by the resolver of the system, which reads /etc/hosts, as for IMAP: nodemailer itself asks name servers first.
 *  Rejects with the error of the socket. */
async function dial({ host, port }: { host: string; port: number }, ms: number, signal: AbortSignal): Promise<Socket> {
  signal.throwIfAborted();
  const socket = connect({ host, port });
  socket.on("error", () => {}); // also when nothing waits for it any more
  const cut = () => void socket.destroy(Object.assign(new Error("no connection in time"), { code: "ETIMEDOUT" }));
  socket.setTimeout(ms, cut);
  signal.addEventListener("abort", cut, { once: true });
  try {
    await once(socket, "connect");
  } finally {
    signal.removeEventListener("abort", cut);
    socket.off("timeout", cut).setTimeout(0);
  }
  return socket;
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
export function step<T = void>(
  connection: SMTPConnection,
  begin: (done: (error: Error | null | undefined, result?: T) => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (error: Error | null | undefined, result?: T) => {
      connection.off("error", stop);
      connection.off("end", ended);
      if (error) reject(error);
      else resolve(result as T);
    };
    const ended = () => stop(Object.assign(new Error("the server closed the connection"), { code: "ECONNECTION" }));
    connection.on("error", stop);
    connection.once("end", ended);
    begin(stop);
  });
}
