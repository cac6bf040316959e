// Small mail server for the demo, without accounts, packages or root: one mailbox over IMAP, and an SMTP server that
// delivers to it and passes mail for all other addresses to the simulated customers. Nothing is persistent.

import type { AddressInfo, Server, Socket } from "node:net";
import type { FetchHandler, FetchItem } from "hoodiecrow-imap";
import createImapServer from "hoodiecrow-imap";
import fetchHandlers from "hoodiecrow-imap/lib/commands/handlers/fetch.js";
import PostalMime from "postal-mime";
import { SMTPServer } from "smtp-server";
import { systemClock } from "../ops/clock.ts";

export interface Delivered {
  readonly from: string;
  readonly to: readonly string[];
  /** Raw message, one character per byte (latin1), with CRLF line ends. */
  readonly raw: string;
}

export type MailServer = Awaited<ReturnType<typeof startMailServer>>;

const plugins = "ID IDLE UIDPLUS MOVE SPECIAL-USE ENABLE LITERALPLUS SASL-IR AUTH-PLAIN".split(" ");

/** Listens on two free ports of 127.0.0.1. `others` receives every message that is not addressed to the mailbox. */
export async function startMailServer(options: {
  readonly address: string;
  readonly password: string;
  others(mail: Delivered): void;
}) {
  const imap = createImapServer({
    plugins,
    users: { [options.address]: { password: options.password } },
    storage: { INBOX: {}, "": { folders: { Sent: { "special-use": "\\Sent" } } } },
  });
  for (const item of ["BODY", "BODY.PEEK"] as const) imap.fetchHandlers[item] = keepingRange(fetchHandlers[item]);
  const sockets = new Set<Socket>();
  imap.server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => imap.listen(0, "127.0.0.1", resolve));
  const deliver = (raw: string) => imap.appendMessage("INBOX", [], new Date(), raw).message.uid;
  const smtp = createSmtp(options, deliver);
  // Ignores clients that abort in the middle of a message.
  smtp.on("error", () => undefined);
  await new Promise<void>((resolve) => smtp.listen(0, "127.0.0.1", resolve));
  return {
    imapPort: portOf(imap.server),
    smtpPort: portOf(smtp.server),
    /** Delivers a message to the mailbox as if it had arrived over SMTP; returns its UID. */
    deliver,
    async close() {
      for (const socket of sockets) socket.destroy();
      await Promise.all([
        new Promise<void>((resolve) => imap.close(() => resolve())),
        new Promise<void>((resolve) => smtp.close(() => resolve())),
      ]);
    },
  };
}

/** A partial fetch (`BODY[]<0.1000>`) of several messages: the library shortens the requested range after the first message
 *  and returns the others empty. Each message gets the range as it was requested. */
const requested = new WeakMap<FetchItem, readonly number[]>();
function keepingRange(handler: FetchHandler): FetchHandler {
  return (connection, message, item) => {
    const range = requested.get(item) ?? item.partial;
    if (range === undefined) return handler(connection, message, item);
    requested.set(item, [...range]);
    item.partial = [...range];
    return handler(connection, message, item);
  };
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** Domain whose addresses choose a fault of the relay by their local part. */
export const faultDomain = "fault.example";

/** What the relay does with a mail to this local part at `faultDomain`. */
export const mailFaults: Readonly<Record<string, string>> = {
  refused: "refuses the recipient (550 5.1.1)",
  deferred: "defers the recipient every time (450 4.2.1)",
  greylisted: "defers the first attempt (451 4.7.1), then accepts",
  rejected: "refuses the message after DATA (554 5.7.1)",
  slow: "accepts the message after three seconds",
  cut: "accepts the message and closes the connection without a response",
};

const faultOf = (address: string): string | null => {
  const [local = "", domain] = address.toLowerCase().split("@");
  return domain === faultDomain && Object.hasOwn(mailFaults, local) ? local : null;
};

const smtpError = (responseCode: number, text: string): Error => Object.assign(new Error(text), { responseCode });

/** Returns the response to RCPT; null accepts the recipient. */
function refusalOf(fault: string | null, seen: Set<string>): Error | null {
  if (fault === "refused") return smtpError(550, "5.1.1 no such mailbox");
  if (fault === "deferred") return smtpError(450, "4.2.1 mailbox is busy, try again later");
  if (fault !== "greylisted" || seen.has(fault)) return null;
  seen.add(fault);
  return smtpError(451, "4.7.1 greylisted, try again later");
}

/** Milliseconds until a slow message is accepted. */
const slowMs = 3000;

function createSmtp(
  options: { readonly address: string; others(mail: Delivered): void },
  deliver: (raw: string) => number,
): SMTPServer {
  const greylisted = new Set<string>();
  /** By the client's port. */
  const sockets = new Map<number | undefined, Socket>();
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    disableReverseLookup: true,
    logger: false,
    onAuth: (auth, _session, done) => done(null, { user: auth.username ?? "" }),
    onRcptTo: ({ address }, _session, done) => done(refusalOf(faultOf(address), greylisted)),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        const raw = Buffer.concat(chunks).toString("latin1");
        const from = session.envelope.mailFrom ? session.envelope.mailFrom.address : "";
        const to = session.envelope.rcptTo.map((recipient) => recipient.address);
        const faults = to.map(faultOf);
        if (faults.includes("rejected")) return done(smtpError(554, "5.7.1 message refused"));
        if (to.includes(options.address)) deliver(raw);
        if (to.some((address) => address !== options.address)) options.others({ from, to, raw });
        if (faults.includes("cut")) return sockets.get(session.remotePort)?.destroy();
        const accept = async (): Promise<void> => {
          if (faults.includes("slow")) await systemClock.sleep(slowMs);
          done();
        };
        void accept();
      });
    },
  });
  server.server.on("connection", (socket: Socket) => {
    const { remotePort } = socket;
    sockets.set(remotePort, socket);
    socket.once("close", () => sockets.delete(remotePort));
  });
  return server;
}

// Parses an email as the demo's customer sees it.

export interface ReplyMail {
  readonly messageId: string;
  readonly subject: string;
  readonly text: string;
}

/** `raw` is the message as received, one character per byte (latin1). */
export async function readReply(raw: string): Promise<ReplyMail> {
  const { messageId = "", subject = "", text = "" } = await PostalMime.parse(Buffer.from(raw, "latin1"));
  return { messageId, subject, text };
}
