// The sandbox's mail server, and clients that die.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { ImapFlow } from "imapflow";
import { createTransport } from "nodemailer";
import { expect, it } from "vitest";
import { faultDomain, mailFaults, startMailServer } from "../../src/sandbox/mail-server.ts";
import { eventually } from "../support/clock.ts";

/** Resolves with the server's output once it contains `what`. */
async function said(socket: Socket, what: string): Promise<string> {
  let heard = "";
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    heard += String(chunk);
    if (heard.includes(what)) break;
  }
  return heard;
}

it("keeps serving when a client is killed in the middle of a mail or a poll", async ({ onTestFinished }) => {
  const taken: string[] = [];
  const account = { address: "support@bridge.test", password: "secret" };
  const server = await startMailServer({ ...account, others: ({ raw }) => void taken.push(raw) });
  onTestFinished(() => server.close());

  const smtp = connect(server.smtpPort, "127.0.0.1");
  await said(smtp, "220");
  for (const [line, answer] of [
    ["EHLO client", "250 "],
    ["MAIL FROM:<a@bridge.test>", "250 "],
    ["RCPT TO:<b@people.test>", "250 "],
    ["DATA", "354"],
  ] as const) {
    smtp.write(`${line}\r\n`);
    await said(smtp, answer);
  }
  smtp.write("Subject: half\r\n");
  const imap = connect(server.imapPort, "127.0.0.1");
  await said(imap, "OK");
  // As the system does for a process that was killed with unread bytes.
  for (const socket of [smtp, imap]) {
    socket.resetAndDestroy();
    await once(socket, "close");
  }

  const transport = createTransport({ host: "127.0.0.1", port: server.smtpPort, secure: false });
  onTestFinished(() => transport.close());
  await transport.sendMail({ from: "a@bridge.test", to: "b@people.test", subject: "whole", text: "Hello" });
  await eventually(() => expect(taken.join()).toContain("Subject: whole"));
  expect(taken).toHaveLength(1);
});

it("returns every message of a partial fetch whole", async ({ onTestFinished }) => {
  const account = { address: "support@bridge.test", password: "secret" };
  const server = await startMailServer({ ...account, others: () => undefined });
  onTestFinished(() => server.close());
  const mails = [1, 2, 3].map((n) => `Subject: mail ${n}\r\n\r\n${"text ".repeat(n)}\r\n`);
  for (const mail of mails) server.deliver(mail);
  const client = new ImapFlow({
    host: "127.0.0.1",
    port: server.imapPort,
    secure: false,
    logger: false,
    auth: { user: account.address, pass: account.password },
  });
  await client.connect();
  onTestFinished(() => client.close());
  await client.mailboxOpen("INBOX");
  const range = { uid: true, source: { start: 0, maxLength: 1000 } };
  const rows = await client.fetchAll("1:*", range, { uid: true });
  expect(rows.map((row) => row.source?.toString("latin1"))).toEqual(mails);
});

it("fails for a recipient as the address says", async ({ onTestFinished }) => {
  const taken: string[] = [];
  const account = { address: "support@bridge.test", password: "secret" };
  const server = await startMailServer({ ...account, others: ({ to }) => void taken.push(...to) });
  onTestFinished(() => server.close());
  const transport = createTransport({ host: "127.0.0.1", port: server.smtpPort, secure: false });
  onTestFinished(() => transport.close());
  const send = async (fault: string) => {
    const to = `${fault}@${faultDomain}`;
    const sending = transport.sendMail({ from: account.address, to, subject: fault, text: "Hello" });
    return sending.then(
      () => "accepted",
      (error: { responseCode?: number }) => error.responseCode ?? "no response",
    );
  };
  const outcomes: (readonly [string, unknown])[] = [];
  for (const fault of [...Object.keys(mailFaults), "greylisted", "other"]) outcomes.push([fault, await send(fault)]);
  expect(outcomes).toEqual([
    ["refused", 550],
    ["deferred", 450],
    ["greylisted", 451],
    ["rejected", 554],
    ["slow", "accepted"],
    ["cut", "no response"],
    ["greylisted", "accepted"],
    ["other", "accepted"],
  ]);
  expect(taken.map((address) => address.split("@")[0])).toEqual(["slow", "cut", "greylisted", "other"]);
});
