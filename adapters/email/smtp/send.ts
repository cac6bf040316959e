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
import { asciiAddress } from "../parse/headers.ts";
import { isLogin, outcomeOf, type SmtpFailure, statusOf } from "../status.ts";
import { type Draft, messageBytes } from "./compose.ts";

export interface SenderOptions {
  readonly lines: Lines;
  readonly health: Health;
  /** Called with the message's bytes after the server accepted it. Must not throw. */
  readonly sent: (draft: Draft, bytes: Buffer) => void;
}

/** Implements `Outbound.send`, with the parsed draft. */
export function sender(options: SenderOptions): (draft: Draft, attempt: Attempt) => Promise<SendOutcome> {
  const { lines, health } = options;
  let loginFailures = 0;

  return async (draft, attempt) => {
    const files: Uint8Array[] = [];
    for (const { ref } of draft.attachments) files.push(await attempt.read(fileRef(ref)));
    const bytes = await messageBytes(draft, files);
    let outcome = await once(lines, draft, bytes, attempt, false);
    // The server had silently closed the idle connection. Nothing was sent, so retry once on a new
    // connection.
    if (outcome.stale && !attempt.signal.aborted) outcome = await once(lines, draft, bytes, attempt, true);
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
  lines: Lines,
  draft: Draft,
  bytes: Buffer,
  attempt: Attempt,
  fresh: boolean,
): Promise<Once> {
  const state: { line: Line | null; crossed: boolean } = { line: null, crossed: false };
  const work = async (line: Line): Promise<SendOutcome> => {
    state.line = line;
    const envelope = envelopeOf(draft, bytes.length);
    if (!line.utf8 && [envelope.from, ...envelope.to].some((address) => /[^\x00-\x7f]/.test(address)))
      return noUtf8;
    const info = await transmit(line, envelope, bytes, attempt, () => {
      state.crossed = true;
    });
    return taken(draft, info);
  };
  try {
    const result = await lines.use(attempt.signal, work, fresh);
    return { result, error: null, loggedIn: true, stale: false };
  } catch (error) {
    const { line, crossed } = state;
    const result = reached(outcomeOf(error, crossed), line !== null);
    const stale = line?.used === true && !crossed && (error as SmtpFailure).responseCode === undefined;
    return { result, error, loggedIn: line !== null, stale };
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
  { connection }: Line,
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

/** Domains are sent as A-labels, because servers without SMTPUTF8 accept no others (RFC 6531, 3.2). */
function envelopeOf(draft: Draft, size: number) {
  return {
    from: asciiAddress(draft.envelopeFrom),
    to: [...draft.to, ...draft.cc].map((party) => asciiAddress(party.address)),
    size,
    // Bounces then name the draft, where the server supports the DSN extension.
    dsn: { ret: "HDRS", envid: draft.key, notify: "FAILURE" },
  };
}

/** With several recipients the server may refuse some and accept the message for the others. */
function taken(draft: Draft, info: Info): SendOutcome {
  const refused = new Set(info.rejected.map((address) => address.toLowerCase()));
  if (refused.size > 0 && draft.to.every(({ address }) => refused.has(asciiAddress(address).toLowerCase()))) {
    const reason = "the recipient was refused; only the copies were taken";
    return { kind: "refused", code: "recipient", reason, scope: "recipient" };
  }
  const replaced = info.serverMessageId === undefined ? draft.messageId : bracketed(info.serverMessageId);
  return {
    kind: "sent",
    id: externalId(draft.messageId),
    ...(replaced === draft.messageId ? {} : { also: [externalId(replaced)] }),
    ...(refused.size > 0 ? { detail: `${refused.size} of the recipients were refused` } : {}),
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
export interface Line {
  readonly connection: SMTPConnection;
  /** False when the connection was just opened. */
  readonly used: boolean;
  /** True when the server offers SMTPUTF8 (RFC 6531). */
  readonly utf8: boolean;
}

export interface Lines {
  /** Maximum number of connections. */
  readonly connections: number;
  /** Waits for a free slot, then calls `work` with an idle connection or a new one. Keeps the connection
   *  for later work when `work` resolves, and closes it when `work` rejects. Rejects with the error of
   *  `work`, of nodemailer or of the token endpoint, or with the signal's reason. `fresh` never uses an
   *  idle connection. */
  use<T>(signal: AbortSignal, work: (line: Line) => Promise<T>, fresh?: boolean): Promise<T>;
  /** Closes the idle connections; a connection in use is closed when its work ends. */
  close(): void;
}

/** In ms. Providers close idle connections after minutes; reusing an older one would only cause a failed
 *  attempt. */
const idleLimit = 20_000;
/** Same value as nodemailer's pool: some servers limit the messages per connection. */
const messageLimit = 100;

/** Opens no connection until the first request. */
export function lines(options: SmtpOptions): Lines {
  const idle: { readonly connection: SMTPConnection; readonly reused: AbortController }[] = [];
  const sent = new WeakMap<SMTPConnection, number>();
  const utf8 = new WeakSet<SMTPConnection>();
  const queue = new PQueue({ concurrency: options.smtp.connections });
  let closed = false;

  function reuse(): Line | null {
    for (let entry = idle.pop(); entry !== undefined; entry = idle.pop()) {
      entry.reused.abort("reused"); // a reason avoids the default error object and its stack trace
      const { connection } = entry;
      if (!connection.destroyed) return { connection, used: true, utf8: utf8.has(connection) };
    }
    return null;
  }

  function keep(connection: SMTPConnection): void {
    const entry = { connection, reused: new AbortController() };
    idle.push(entry);
    const tooLong = () => {
      idle.splice(idle.indexOf(entry), 1);
      if (connection.destroyed) connection.close();
      else connection.quit();
    };
    AbortSignal.timeout(idleLimit).addEventListener("abort", tooLong, {
      once: true,
      signal: entry.reused.signal,
    });
  }

  async function connected(signal: AbortSignal, fresh: boolean): Promise<Line> {
    const idleOne = fresh ? null : reuse();
    if (idleOne !== null) return idleOne;
    const opened = await open(options, signal);
    if (opened.utf8) utf8.add(opened.connection);
    return { ...opened, used: false };
  }

  /** Keeps the connection, unless it has carried enough messages or is no longer needed. */
  function release({ connection }: Line): void {
    const count = (sent.get(connection) ?? 0) + 1;
    if (closed || count >= messageLimit || connection.destroyed) return connection.close();
    sent.set(connection, count);
    keep(connection);
  }

  return {
    connections: options.smtp.connections,
    use(signal, work, fresh = false) {
      // Only for the wait: p-queue would free the slot of running work at an abort, before the work ends.
      const waiting = new AbortController();
      const leave = () => waiting.abort(signal.reason);
      signal.addEventListener("abort", leave, { once: true });
      if (signal.aborted) leave();
      const run = async () => {
        signal.removeEventListener("abort", leave);
        const line = await connected(signal, fresh);
        try {
          const result = await work(line);
          release(line);
          return result;
        } catch (error) {
          line.connection.close();
          throw error;
        }
      };
      return queue.add(run, { signal: waiting.signal });
    },
    close() {
      closed = true;
      for (let line = reuse(); line !== null; line = reuse()) line.connection.quit();
    },
  };
}

/** Connects, starts TLS and logs in. */
async function open({ smtp, login }: SmtpOptions, signal: AbortSignal): Promise<Omit<Line, "used">> {
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
    return { connection, utf8 };
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
