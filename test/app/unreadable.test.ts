// Mail that only a human can read: it is held with its reason, responders or `notify` are notified, and the agent does
// not answer it.

import { afterAll, beforeAll, expect, it } from "vitest";
import { listEvents, releaseEvent } from "../../src/store/operators/inbox.ts";
import { eventually } from "../support/clock.ts";
import { customer, type Desk, dora, emil, openDesk } from "../support/daemon/escalation-daemon.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import { describeReal, need } from "../support/machine/debian.ts";

const armored = "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----";
const smime = { "Content-Type": "application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m" };

const listed = async (desk: Desk) => {
  const { events } = await desk.app().db.read((q) => listEvents(q, { state: "held", limit: 50 }));
  return events.map(({ code, reason, subject }) => ({ code, reason, subject }));
};

it.concurrent("is held, listed and escalated; the responder's answer reaches the customer", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  const mail = await desk.write({ subject: "Contract", text: armored });
  const notice = await desk.mailTo(dora.email);
  expect(notice.text).toContain("the message is encrypted with PGP; it is held as number");
  expect(notice.text).not.toContain("hQEMA");
  expect(await listed(desk)).toEqual([
    { code: "pgp-encrypted", reason: "the message is encrypted with PGP", subject: "Contract" },
  ]);
  await desk.quiet();
  expect(desk.questions()).toEqual([]);
  expect(desk.mailsTo(customer)).toEqual([]);
  expect(await desk.escalations()).toMatchObject([{ state: "open", cause: "held" }]);
  await desk.write({
    from: dora.email,
    subject: `Re: ${notice.subject}`,
    answers: notice,
    text: "Please send it unencrypted.",
  });
  const answer = await desk.mailTo(customer);
  expect(answer.text).toContain("Please send it unencrypted.");
  await desk.escalated("acknowledged");
  expect(mail.from).toBe(customer);
});

it.concurrent("is released by the operator like any held message", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  const mail = await desk.write({ subject: "Offer", text: "AAAA", headers: smime });
  await eventually(async () => expect(await listed(desk)).toMatchObject([{ code: "smime-encrypted" }]));
  await desk
    .app()
    .db.tx(async (q) => releaseEvent(q, (await listEvents(q, { state: "held", limit: 1 })).events[0]?.id ?? 0));
  expect(await desk.mailTo(customer)).toMatchObject({ inReplyTo: mail.messageId });
});

it.concurrent("is sent to the channel's notify, also without a policy", async ({ onTestFinished }) => {
  const notify = { channel: "mail", to: ["team@people.example"] };
  const desk = await openDesk(onTestFinished, { mail: { notify } });
  await desk.write({ subject: "Contract", text: armored });
  const notice = await desk.mailTo("team@people.example");
  expect(notice.subject).toBe("A message needs a human: Contract");
  expect(notice.text).toMatch(/encrypted with PGP; it is held as number \d+/);
  expect(notice.text).toContain(customer);
  expect(await listed(desk)).toMatchObject([{ code: "pgp-encrypted" }]);
});

it.concurrent("is not relayed as a responder's reply", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.write({ text: "A refund, please" });
  const notice = await desk.mailTo(emil.email);
  await desk.mailTo(customer);
  await desk.write({ from: emil.email, subject: `Re: ${notice.subject}`, answers: notice, text: armored });
  expect((await desk.mailTo(emil.email, 1)).text).toContain("Your message cannot be read.");
  await desk.quiet();
  expect(desk.mailsTo(customer)).toHaveLength(1);
  expect(await listed(desk)).toEqual([]);
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("many messages that only a human can read", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["support"]);
  });
  afterAll(() => dovecot?.dispose());

  it("neither floods the responders nor names a denied sender", async ({ onTestFinished }) => {
    const desk = await openDesk(onTestFinished, { dovecot, mail: { deny: ["spam@customer.example"] } });
    await desk.write({ from: "spam@customer.example", text: armored });
    for (let n = 0; n < 30; n++) await desk.write({ from: `c${n}@customer.example`, text: armored });
    await eventually(async () => expect(await listed(desk)).toHaveLength(30), 60_000);
    await desk.quiet();
    expect((await desk.escalations()).filter(({ cause }) => cause === "held")).toHaveLength(21);
    expect(await desk.rows("SELECT code FROM events WHERE state = 'ignored'")).toEqual([{ code: "denied" }]);
  });
});
