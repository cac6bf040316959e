// Mail that only a human can read: it is held with its reason, responders or `notify` are notified, and the agent does
// not answer it.

import { afterAll, beforeAll, expect, it } from "vitest";
import { listEvents, releaseEvent } from "../../../src/store/operators/inbox.ts";
import { eventually } from "../../support/clock.ts";
import {
  customer,
  dora,
  type EscalationDaemon,
  emil,
  startEscalationDaemon,
} from "../../support/daemon/escalation-daemon.ts";
import { type MailStore, sharedDovecot } from "../../support/email/dovecot.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const armored = "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----";
const smime = { "Content-Type": "application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m" };

const listed = async (daemon: EscalationDaemon) => {
  const { events } = await daemon.app().db.read((q) => listEvents(q, { state: "held", limit: 50 }));
  return events.map(({ code, reason, subject }) => ({ code, reason, subject }));
};

it.concurrent("is held, listed and escalated; the responder's answer reaches the customer", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const mail = await daemon.write({ subject: "Contract", text: armored });
  const notice = await daemon.mailTo(dora.email);
  expect(notice.text).toContain("the message is encrypted with PGP; it is held as number");
  expect(notice.text).not.toContain("hQEMA");
  expect(await listed(daemon)).toEqual([
    { code: "pgp-encrypted", reason: "the message is encrypted with PGP", subject: "Contract" },
  ]);
  await daemon.quiet();
  expect(daemon.questions()).toEqual([]);
  expect(daemon.mailsTo(customer)).toEqual([]);
  expect(await daemon.escalations()).toMatchObject([{ state: "open", cause: "held" }]);
  await daemon.write({
    from: dora.email,
    subject: `Re: ${notice.subject}`,
    answers: notice,
    text: "Please send it unencrypted.",
  });
  const answer = await daemon.mailTo(customer);
  expect(answer.text).toContain("Please send it unencrypted.");
  await daemon.escalated("acknowledged");
  expect(mail.from).toBe(customer);
});

it.concurrent("is released by the operator like any held message", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const mail = await daemon.write({ subject: "Offer", text: "AAAA", headers: smime });
  await eventually(async () => expect(await listed(daemon)).toMatchObject([{ code: "smime-encrypted" }]));
  await daemon
    .app()
    .db.tx(async (q) => releaseEvent(q, (await listEvents(q, { state: "held", limit: 1 })).events[0]?.id ?? 0));
  expect(await daemon.mailTo(customer)).toMatchObject({ inReplyTo: mail.messageId });
});

it.concurrent("is sent to the channel's notify, also without a policy", async ({ onTestFinished }) => {
  const notify = { channel: "mail", to: ["team@people.example"] };
  const daemon = await startEscalationDaemon(onTestFinished, { mail: { notify } });
  await daemon.write({ subject: "Contract", text: armored });
  const notice = await daemon.mailTo("team@people.example");
  expect(notice.subject).toBe("A message needs a human: Contract");
  expect(notice.text).toMatch(/encrypted with PGP; it is held as number \d+/);
  expect(notice.text).toContain(customer);
  expect(await listed(daemon)).toMatchObject([{ code: "pgp-encrypted" }]);
});

it.concurrent("is not relayed as a responder's reply", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.write({ text: "A refund, please" });
  const notice = await daemon.mailTo(emil.email);
  await daemon.mailTo(customer);
  await daemon.write({ from: emil.email, subject: `Re: ${notice.subject}`, answers: notice, text: armored });
  expect((await daemon.mailTo(emil.email, 1)).text).toContain("Your message cannot be read.");
  await daemon.quiet();
  expect(daemon.mailsTo(customer)).toHaveLength(1);
  expect(await listed(daemon)).toEqual([]);
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("many messages that only a human can read", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["support"]);
  });
  afterAll(() => dovecot?.dispose());

  it("neither floods the responders nor names a denied sender", async ({ onTestFinished }) => {
    const daemon = await startEscalationDaemon(onTestFinished, { dovecot, mail: { deny: ["spam@customer.example"] } });
    await daemon.write({ from: "spam@customer.example", text: armored });
    for (let n = 0; n < 30; n++) await daemon.write({ from: `c${n}@customer.example`, text: armored });
    await eventually(async () => expect(await listed(daemon)).toHaveLength(30), 60_000);
    await daemon.quiet();
    expect((await daemon.escalations()).filter(({ cause }) => cause === "held")).toHaveLength(21);
    expect(await daemon.rows("SELECT code FROM events WHERE state = 'ignored'")).toEqual([{ code: "denied" }]);
  });
});
