// A real SMTP server with a log of its own that only grows, and faults on demand at every stage of a delivery.

import type { AddressInfo, Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { SMTPServer, type SMTPServerSession } from "smtp-server";
import type { Certificate } from "../machine/network.ts";

export type Stage = "connect" | "ehlo" | "auth" | "mail" | "rcpt" | "data" | "dot";

export type Fault =
  /** Answers with this code (4xx, 5xx) and text. At `connect` the greeting. */
  | { readonly kind: "reply"; readonly code: number; readonly text: string }
  /** The line is reset. At `data` while the message flows, at `dot` after its end. */
  | { readonly kind: "reset" }
  /** Says nothing more on this line. */
  | { readonly kind: "silence" }
  /** Answers well, after some time. */
  | { readonly kind: "delay"; readonly ms: number };

/** One accepted message. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  readonly raw: string;
  /** Of the header; "" without one. */
  readonly messageId: string;
  readonly at: number;
  readonly user: string | null;
}

export interface SmtpPeer extends AsyncDisposable {
  readonly port: number;
  /** Every message whose final dot arrived, also those that were then answered badly or not at all. Only grows. */
  readonly arrived: readonly ReceivedMail[];
  /** Those among `arrived` that this server promised to deliver. Only grows. */
  readonly accepted: readonly ReceivedMail[];
  /** Commands reached so far: `["connect", "ehlo", "auth", ...]`. Only grows. */
  readonly stages: readonly Stage[];
  /** Applies the fault to the next `times` arrivals at the stage (default: all, until `heal`). */
  fail(stage: Stage, fault: Fault, times?: number): void;
  /** Removes all faults. */
  heal(): void;
  /** Lines open now. */
  open(): number;
  close(): Promise<void>;
}

export interface SmtpPeerOptions {
  /** user → password. Without it everybody is let in without AUTH. */
  readonly users?: Readonly<Record<string, string>>;
  /** Says whether an XOAUTH2 token is good. */
  readonly token?: (user: string, token: string) => boolean;
  /** Implicit TLS, or STARTTLS offered; default: neither. */
  readonly tls?: { readonly mode: "implicit" | "starttls"; readonly certificate: Certificate };
  /** Called with every accepted mail before it is confirmed: deliver it to a Dovecot user from here. */
  readonly deliver?: (mail: ReceivedMail) => Promise<void> | void;
  /** Called with every message whose final dot arrived, before any answer, good or bad. */
  readonly arrive?: (mail: ReceivedMail) => Promise<void> | void;
  /** Does not offer SMTPUTF8 (RFC 6531). */
  readonly withoutUtf8?: boolean;
  /** Announced as SIZE (RFC 1870), in bytes. Default: 50 MB. */
  readonly size?: number;
  /** Further connections are answered with 421. */
  readonly maxClients?: number;
  /** The recipients that are refused now, with the response. */
  readonly refused?: ReadonlyMap<string, { readonly code: number; readonly text: string }>;
  /** Text of the answer after the dot, in place of `OK`: `2.0.0 Ok <id@server>`. */
  readonly confirmation?: () => string;
}

/** Listens on a free port of 127.0.0.1. */
export async function startSmtpPeer(options: SmtpPeerOptions = {}): Promise<SmtpPeer> {
  const arrived: ReceivedMail[] = [];
  const accepted: ReceivedMail[] = [];
  const stages: Stage[] = [];
  const faults = new Map<Stage, { fault: Fault; left: number }>();
  const sockets = new Set<Socket>();

  /** The fault due now; counts it down. */
  function due(stage: Stage): Fault | null {
    stages.push(stage);
    const entry = faults.get(stage);
    if (entry === undefined) return null;
    entry.left -= 1;
    if (entry.left <= 0) faults.delete(stage);
    return entry.fault;
  }

  function apply(stage: Stage, session: SMTPServerSession, next: (error?: Error | null) => void): void {
    const fault = due(stage);
    if (fault === null) next();
    else if (fault.kind === "reply") next(answer(fault));
    else if (fault.kind === "reset") reset(session);
    else if (fault.kind === "delay") setTimeout(next, fault.ms);
  }

  async function confirm(mail: ReceivedMail, next: (error?: Error | null, text?: string) => void): Promise<void> {
    try {
      accepted.push(mail);
      await options.deliver?.(mail);
    } catch (error) {
      return next(error as Error);
    }
    next(null, options.confirmation?.() ?? "2.0.0 OK queued");
  }

  const server = new SMTPServer({
    ...(options.tls ? { key: options.tls.certificate.key, cert: options.tls.certificate.cert } : {}),
    secure: options.tls?.mode === "implicit",
    logger: false,
    ...(options.maxClients === undefined ? {} : { maxClients: options.maxClients }),
    closeTimeout: 100,
    disableReverseLookup: true,
    authOptional: options.users === undefined && options.token === undefined,
    authMethods: options.token ? ["PLAIN", "LOGIN", "XOAUTH2"] : ["PLAIN", "LOGIN"],
    allowInsecureAuth: true,
    size: options.size ?? 50_000_000,
    hideSMTPUTF8: options.withoutUtf8 === true,
    disabledCommands: [
      ...(options.tls?.mode === "starttls" ? [] : ["STARTTLS" as const]),
      ...(options.users || options.token ? [] : ["AUTH" as const]),
    ],
    onConnect(session, next) {
      hookEhlo(session);
      apply("connect", session, next);
    },
    onAuth(auth, session, next) {
      apply("auth", session, (error) => {
        if (error) return next(error);
        const user = auth.username ?? "";
        const good = auth.accessToken
          ? options.token?.(user, auth.accessToken) === true
          : options.users?.[user] !== undefined && options.users[user] === auth.password;
        if (good) next(null, { user });
        else next(answer({ code: 535, text: "5.7.8 Authentication credentials invalid" }));
      });
    },
    onMailFrom: (_address, session, next) => apply("mail", session, next),
    onRcptTo({ address }, session, next) {
      const refusal = options.refused?.get(address);
      if (refusal === undefined) return apply("rcpt", session, next);
      stages.push("rcpt");
      next(answer(refusal));
    },
    onData(stream, session, next) {
      if (faults.get("data")?.fault.kind === "reset") {
        due("data");
        stream.once("data", () => reset(session));
        return;
      }
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        const mail = received(session, Buffer.concat(chunks).toString("latin1"));
        arrived.push(mail);
        void options.arrive?.(mail);
        apply("dot", session, (error) => {
          if (error) return next(error);
          void confirm(mail, next);
        });
      });
    },
  });
  server.on("error", () => {});
  server.server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });

  // smtp-server keeps its connections in a set; only from there is a session's socket or its EHLO reached.
  interface Inner {
    session: SMTPServerSession;
    _socket: Socket;
    send(code: number, text: string): void;
    handler_EHLO(command: Buffer, next: () => void): void;
    handler_HELO(command: Buffer, next: () => void): void;
    handler_DATA(command: Buffer, next: () => void): void;
  }
  function inner(session: SMTPServerSession): Inner | undefined {
    const all = [...(server as unknown as { connections: Set<Inner> }).connections];
    return all.find((one) => one.session?.id === session.id);
  }
  /** Under TLS the line is only ended: to touch the socket below a TLS one ends the process (Node 24). */
  function reset(session: SMTPServerSession): void {
    const { _socket: socket } = inner(session) ?? {};
    if (socket instanceof TLSSocket) socket.destroy();
    else socket?.resetAndDestroy();
  }
  function hookEhlo(session: SMTPServerSession): void {
    const connection = inner(session);
    if (connection === undefined) return;
    for (const [stage, name] of [
      ["ehlo", "handler_EHLO"],
      ["ehlo", "handler_HELO"],
      ["data", "handler_DATA"],
    ] as const) {
      const original = connection[name].bind(connection);
      connection[name] = (command, next) => {
        // A reset at `data` comes later, while the message flows.
        if (stage === "data" && faults.get("data")?.fault.kind === "reset") return original(command, next);
        apply(stage, session, (error) => {
          if (!error) return original(command, next);
          connection.send((error as Error & { responseCode: number }).responseCode, error.message);
          next();
        });
      };
    }
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const close = async () => {
    // Under TLS the raw socket belongs to the TLS one; to destroy it from here ends the process (Node 24).
    if (!options.tls) for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  return {
    port: (server.server.address() as AddressInfo).port,
    arrived,
    accepted,
    stages,
    fail: (stage, fault, times = Number.POSITIVE_INFINITY) => void faults.set(stage, { fault, left: times }),
    heal: () => faults.clear(),
    open: () => sockets.size,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function answer(reply: { code: number; text: string }): Error {
  return Object.assign(new Error(reply.text), { responseCode: reply.code });
}

function received(session: SMTPServerSession, raw: string): ReceivedMail {
  const from = session.envelope.mailFrom;
  return {
    from: from === false ? "" : from.address,
    to: session.envelope.rcptTo.map((recipient) => recipient.address),
    raw,
    messageId: /^message-id:\s*(<[^>]+>)/im.exec(raw)?.[1] ?? "",
    at: Date.now(),
    user: typeof session.user === "string" ? session.user : null,
  };
}
