// Performs one attempt to send a draft to the server.

import { Readable } from "node:stream";
import { type Attempt, externalId, fileRef, type SendOutcome } from "bridgehead/contract";
import { statusOf } from "../failure.ts";
import type { Health } from "../health.ts";
import { isTokenFailure } from "../oauth.ts";
import { asciiAddress } from "../parse/headers.ts";
import type { Line, Lines } from "./connection.ts";
import type { Draft } from "./draft.ts";
import { messageBytes } from "./message.ts";
import { isLogin, outcomeOf, type SmtpFailure } from "./outcome.ts";

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
  if (draft.to.every((party) => refused.has(asciiAddress(party.address).toLowerCase()))) {
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
