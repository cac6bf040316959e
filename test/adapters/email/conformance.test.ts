// The contract's own suite over this adapter, with a real Dovecot and a real SMTP server as its peer. Both stand
// behind relays, so that a peer can be away and come back on the same port.

import { describeAdapter, type Fault, type Harness, type Peer } from "bridgehead/contract/testing";
import PostalMime from "postal-mime";
import { afterAll, beforeAll } from "vitest";
import email from "../../../adapters/email/index.ts";
import { mail } from "../../support/email/adapter.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { type ReceivedMail, startSmtpPeer } from "../../support/email/smtp-server.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { startTcpProxy } from "../../support/machine/network.ts";

const users = Array.from({ length: 60 }, (_, n) => `support${n}`);
let dovecot: Dovecot;
let next = 0;

async function start(): Promise<Peer> {
  const user = users[next++] ?? "";
  const smtp = await startSmtpPeer({
    users: { [user]: "secret" },
    // As large providers do, the server files what it takes.
    arrive: (taken) => dovecot.deliver(user, taken.raw, "Sent"),
  });
  const [imapLine, smtpLine] = [await startTcpProxy(dovecot.port), await startTcpProxy(smtp.port)];
  const faults: Record<Exclude<Fault, "refuse-connection" | "server-error"> | "none", () => void> = {
    none: () => {},
    "refuse-message": () => smtp.fail("rcpt", { kind: "reply", code: 550, text: "5.7.1 no" }),
    later: () => smtp.fail("mail", { kind: "reply", code: 451, text: "4.3.0 later" }),
    "cut-before": () => smtp.fail("connect", { kind: "reset" }),
    "cut-after": () => smtp.fail("dot", { kind: "reset" }),
    "hang-before": () => smtp.fail("connect", { kind: "silence" }),
    "hang-after": () => smtp.fail("dot", { kind: "silence" }),
  };
  return {
    config: (credentials) => {
      const password = credentials === "right" ? "secret" : "wrong";
      const server = { host: "127.0.0.1", tls: "none", user, password };
      return {
        address: "support@example.com",
        imap: { ...server, port: imapLine.port, poll: "60s" },
        smtp: { ...server, port: smtpLine.port, timeout: "30s" },
        provider_files_sent: true,
        body_marker: false,
      };
    },
    fault(fault) {
      smtp.heal();
      for (const line of [imapLine, smtpLine]) {
        line.resume();
        if (fault === "refuse-connection") line.refuse();
        if (fault === "refuse-connection" || fault.endsWith("before")) line.cut();
      }
      if (fault === "cut-before") imapLine.refuse();
      if (fault === "hang-before") imapLine.swallow();
      if (fault !== "refuse-connection" && fault !== "server-error") faults[fault]();
    },
    async stop() {
      await Promise.all([imapLine.close(), smtpLine.close(), smtp.close()]);
    },
    say: (text) => dovecot.deliver(user, mail(`${next}-${text.length}-${Math.random()}`, {}, text)),
    acknowledged: async () =>
      (await dovecot.list(user)).filter((one) => one.flags.includes("$Bridgehead")).map((one) => bodyOf(one.raw)),
    reply: { to: [{ address: "ann@example.net" }] },
    delivered: () => smtp.arrived.map(textOf),
    async files(text) {
      const mails = smtp.arrived.filter((one) => textOf(one).includes(text));
      const parsed = await Promise.all(mails.map(({ raw }) => PostalMime.parse(Buffer.from(raw, "latin1"))));
      return parsed.flatMap(({ attachments }) =>
        attachments.map(({ filename, content }) => ({
          name: filename ?? "",
          bytes: typeof content === "string" ? Buffer.from(content) : new Uint8Array(content),
        })),
      );
    },
  };
}

/** Of a plain mail. */
function bodyOf(raw: string): string {
  return raw.slice(raw.indexOf("\r\n\r\n") + 4).trim();
}

/** The text part of what we send, decoded. */
function textOf({ raw }: ReceivedMail): string {
  const part = /Content-Type: text\/plain[^]*?\r\n\r\n([^]*?)\r\n--/i.exec(raw)?.[1] ?? "";
  const unfolded = part
    .replace(/=\r\n/g, "")
    .replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(unfolded, "latin1").toString().replaceAll("\r\n", "\n").trim();
}

const harness: Harness = {
  start,
  lacks: {
    delay: "a reply of SMTP states no time",
    "server-error": "every reply of SMTP tells whether the mail was taken",
    http: "mail comes over the line we open",
    socket: "mail comes over the line we open",
  },
  quietMs: 300,
};

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("the contract", missing, () => {
  beforeAll(async () => {
    dovecot = await startDovecot({ users });
  });
  afterAll(() => dovecot?.dispose());
  describeAdapter(email, harness);
});
