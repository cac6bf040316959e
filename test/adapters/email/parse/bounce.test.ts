// Mails that say another mail was not delivered, with a machine-readable part and without.

import { externalId } from "bridgehead/contract";
import { afterAll, describe, expect, it } from "vitest";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import { deliveries } from "../../../../adapters/email/parse/machine/bounce.ts";
import { classify, type OwnIdentity } from "../../../../adapters/email/parse/machine/classify.ts";
import { bounce, mail, multipart, reader } from "../../../support/email/mails.ts";

const own: OwnIdentity = {
  addresses: ["support@example.com"],
  isOurs: (id) => id.includes(".bridgehead@example.com"),
  automaticSenders: [],
  bccAllowed: false,
};
const { parser, read } = reader();
afterAll(() => parser.close());
const finding = async (raw: Uint8Array) => classify(await read(raw), own);
const ours = "<k1.bridgehead@example.com>";
const exim = {
  From: "Mail Delivery System <Mailer-Daemon@mx.example.net>",
  "Return-Path": "<>",
  "X-Failed-Recipients": "gone@example.net",
  Subject: "Mail delivery failed: returning message to sender",
  "Auto-Submitted": "auto-replied",
};

describe("bounces", () => {
  it("reads a standard one", async () => {
    expect(await finding(bounce())).toEqual({
      kind: "bounce",
      permanent: true,
      recipients: ["gone@example.net"],
      guessed: false,
      about: [ours],
      envelopeId: "env42",
      detail: "5.1.1 smtp; 550 5.1.1 no such user",
    });
  });
  it("classifies a full mailbox and a server that gave up as temporary", async () => {
    expect(await finding(bounce({ status: "5.2.2" }))).toMatchObject({ kind: "bounce", permanent: false });
    expect(await finding(bounce({ status: "4.4.7" }))).toMatchObject({ kind: "bounce", permanent: false });
  });
  it.each([
    ["5.1.1", "smtp; 550 5.1.1 no such user", true],
    ["5.0.0", "smtp; 550 user unknown", true],
    ["5.0.0", "smtp; 550-5.1.1 The account does not exist", true],
    ["5.0.0", "smtp; 554 delivery error: dd This user does not exist [192.0.2.7] 5.9.12.33", true],
    ["5.4.4", "X-Postfix; Host or domain name not found", true],
    ["5.4.310", "smtp; 550 5.4.310 DNS domain gone.example does not exist", true],
    ["5.0.0", "smtp; 550 5.7.1 rejected by a spam filter", false],
    ["5.0.0", "smtp; 552 5.2.2 over quota", false],
    ["5.0.0", "smtp; 552 disk quota exceeded", false],
    ["5.1.0", "smtp; 550 5.1.0 Address rejected.", true],
    ["5.1.0", "smtp; 550 5.1.0 sender rejected", false],
    ["5.1.8", "smtp; 553 5.1.8 Domain of sender address does not exist", false],
    ["5.0.0", "smtp; 550 DMARC check failed.", false],
    ["5.0.0", "smtp; 550 relay not permitted", false],
    ["5.0.0", "smtp; 554 email rejected due to security policies", false],
    ["5.0.0", "smtp; 452 try again", false],
    ["5.1.1", "smtp; 550 5.7.1 IP address blacklisted", false],
    ["5.1.0", "smtp; 5.1.0 - Unknown address error 550-'5.2.2 mailbox full'", false],
    ["5.4.6", "smtp; 554 5.4.6 Too many hops", false],
    ["5.4.7", "smtp; 550 5.4.7 expired", false],
    ["5.4.316", "smtp; 550 5.4.316 Message expired, connection refused", false],
  ])("says by %s and %s whether the address is bad", async (status, diagnostic, permanent) => {
    expect(await finding(bounce({ status, diagnostic }))).toMatchObject({ kind: "bounce", permanent });
  });

  it.each([
    ["expired", "", "Unable to resolve MX host example.net", false],
    ["Expired (after 72 hours)", "5.0.0", "smtp; 550 no such user", false],
    ["failure", "5.1.1", "smtp; 550 5.1.1 no such user", true],
  ])("reads the action %s, which RFC 3464 does not define", async (action, status, diagnostic, permanent) => {
    const raw = bounce({ action, status, diagnostic });
    expect(await finding(raw)).toMatchObject({ kind: "bounce", permanent, about: [ours] });
    expect(await delivered(raw)).toMatchObject([{ state: "failed", permanent }]);
  });
  it("does not read an undefined action with a status of success as a failure", async () => {
    const raw = bounce({ action: "success", status: "2.0.0", diagnostic: "smtp; 250 ok" });
    expect(await finding(raw)).toMatchObject({ kind: "refused", code: "delivery-report" });
  });

  it.each([
    ["Unrouteable address", true],
    ["retry timeout exceeded", false],
    ["Domain example.com has exceeded the max defers and failures per hour (10/10 (100%)) allowed.", false],
  ])("says by the text whether the address is bad, where Exim gives no diagnostic: %s", async (words, permanent) => {
    const raw = Buffer.from(bounce({ status: "5.0.0" }))
      .toString()
      .replace(/^Diagnostic-Code: .*\r\n/m, "");
    const reasoned = Buffer.from(raw.replace("Your mail", `gone@example.net\r\n  ${words}\r\n\r\nYour mail`));
    expect(await delivered(reasoned)).toMatchObject([{ state: "failed", permanent }]);
  });

  it("says it of each recipient", async () => {
    const two = "Final-Recipient: rfc822; full@example.net\r\nAction: failed\r\nStatus: 5.2.2\r\n\r\nFinal-Recipient:";
    const raw = Buffer.from(Buffer.from(bounce()).toString().replace("Final-Recipient:", two));
    expect((await delivered(raw)).map(({ about, permanent }) => [about.recipient, permanent])).toEqual([
      ["full@example.net", false],
      ["gone@example.net", true],
    ]);
  });

  it("reads a recipient outside ASCII", async () => {
    const raw = bounce({ recipient: "gone\\x{E4}\\x{1F600}\\x{110000}@example.net" });
    expect(await finding(raw)).toMatchObject({ recipients: ["goneä😀\\x{110000}@example.net"] });
  });
  it("prefers the original recipient to the alias behind it", async () => {
    const both = "Original-Recipient: rfc822;first@example.net\r\nFinal-Recipient:";
    const raw = Buffer.from(Buffer.from(bounce()).toString().replace("Final-Recipient:", both));
    expect(await finding(raw)).toMatchObject({ recipients: ["first@example.net"] });
  });
  const guessed: readonly [string, Uint8Array, object][] = [
    [
      "qmail",
      mail(
        { From: "MAILER-DAEMON@mx.example.net", "Return-Path": "<>", Subject: "failure notice" },
        `Hi. This is the qmail-send program at mx.example.net.\n\n<gone@example.net>:\n550 5.1.1 no mailbox\n\n--- Below this line is a copy of the message.\n\nMessage-ID: ${ours}\nFrom: support@example.com\n`,
      ),
      { permanent: true, recipients: ["gone@example.net"], about: [ours] },
    ],
    [
      "Exim",
      mail(
        exim,
        `A message could not be delivered.\n\n  gone@example.net\n    Unrouteable address\n\n  Message-Id: ${ours}\n`,
      ),
      { permanent: true, recipients: ["gone@example.net"], about: [ours] },
    ],
    [
      "a German server",
      mail(
        { From: "postmaster@mail.example.de", Subject: "Unzustellbar: Ihre Mail" },
        `Ihre Nachricht an gone@example.net konnte nicht zugestellt werden: 452 4.2.2 voll\n> Message-ID: ${ours}\n`,
      ),
      { permanent: false, about: [ours] },
    ],
    [
      "one with the mail attached",
      multipart(
        "mixed",
        [
          { type: "text/plain", body: "Delivery failed" },
          { type: "message/rfc822", body: `Message-ID: ${ours}\n\nx` },
        ],
        { From: "MAILER-DAEMON@x.example", Subject: "Returned mail" },
      ),
      { about: [ours] },
    ],
  ];
  it.each(guessed)("guesses %s", async (_, raw, expected) => {
    expect(await finding(raw)).toMatchObject({ kind: "bounce", ...expected });
  });
});

const self = identity("support@example.com", []);
const reply = "<key1.bridgehead@example.com>";

/** The delivery events of a mail that is a bounce. */
async function delivered(raw: Uint8Array) {
  const found = await finding(raw);
  if (found.kind !== "bounce") throw new Error(`no bounce, but ${JSON.stringify(found)}`);
  const listed = { uid: 1, size: 1, arrived: null, keywords: [] };
  const arrival = { id: externalId("x"), listed, now: 0, copiedAfter: 0 };
  return deliveries(self, arrival, await read(raw), found, raw);
}

const fields =
  "Reporting-MTA: dns; mx.example.net\n\nFinal-Recipient: rfc822; gone@example.net\nAction: failed\nStatus: 5.1.1\n";
const receipt = "Final-Recipient: rfc822;anna@example.org\nDisposition: manual-action/MDN-sent-manually; displayed\n";
const abuse = "Feedback-Type: abuse\nUser-Agent: x/1\nVersion: 1\n";
const file = (type: string, name: string, body: string) => ({
  type: `${type}; name="${name}"`,
  body,
  fields: { "Content-Disposition": `attachment; filename="${name}"` },
});

describe("the parts of a report", () => {
  it.each([
    ["a delivery report", file("message/delivery-status", "details.txt", fields)],
    ["a delivery report shown in the text", { type: 'message/delivery-status; name="details.txt"', body: fields }],
    ["a delivery report without a name", { type: "message/delivery-status", body: fields }],
    ["an international delivery report", file("message/global-delivery-status", "details.txt", fields)],
    ["a read receipt", file("message/disposition-notification", "MDNPart2.txt", receipt)],
    ["an abuse report", file("message/feedback-report", "report.txt", abuse)],
  ])("are attachments in the mail of a person: %s", async (_, part) => {
    const text = { type: "text/plain", body: "Why does your colleague gone@example.net not get my mail?" };
    const forward = multipart("mixed", [text, part], { Subject: "Fwd: Undelivered Mail Returned to Sender" });
    expect(await finding(forward)).toEqual({ kind: "person" });
    const { attachments, report, text: kept } = await read(forward);
    expect([report, kept, attachments.length]).toEqual([null, text.body, 1]);
  });

  const repacked = (more: object) =>
    multipart(
      "mixed",
      [
        { type: "text/plain", body: "Your mail could not be delivered." },
        { type: "message/delivery-status", body: fields },
        { type: "text/rfc822-headers", body: `Message-ID: ${reply}\n` },
      ],
      { Subject: "Undelivered Mail", ...more },
    );
  it.each([
    ["the null sender", { From: "robot@example.net", "Return-Path": "<>" }],
    ["an envelope sender that is a daemon", { From: "robot@example.net", "Return-Path": "<MAILER-DAEMON@x.example>" }],
    ["a daemon", { From: "MAILER-DAEMON@mx.example.net", "Return-Path": null }],
    ["a daemon without an address", { From: "MAILER-DAEMON <>", "Return-Path": null }],
    ["the null sender in From", { From: "<>", "Return-Path": null }],
    ["a daemon by its name", { From: "Mail Delivery System <mail@mx.example.net>", "Return-Path": null }],
  ])("count when a gateway has repacked the report of %s", async (_, sender) => {
    expect(await delivered(repacked(sender))).toMatchObject([
      { state: "failed", about: { key: "key1", recipient: "gone@example.net" } },
    ]);
  });

  it("count in a report that is signed, or has a list's footer or a gateway's text before it", async () => {
    const inner = `Content-Type: multipart/report; report-type=disposition-notification; boundary="in"`;
    const parts = `--in\nContent-Type: text/plain\n\nread\n--in\nContent-Type: message/disposition-notification\n\n${receipt}\n--in--\n`;
    const banner = "--bound\nContent-Type: text/plain\n\nCAUTION\n";
    for (const [kind, type, start] of [
      ["signed", "application/pkcs7-signature; name=smime.p7s", ""],
      ["mixed", "text/plain", ""],
      ["mixed", "text/plain", banner],
    ] as const) {
      const body = `${start}--bound\n${inner}\n\n${parts}\n--bound\nContent-Type: ${type}\n\nx\n--bound--\n`;
      const raw = mail({ "Content-Type": `multipart/${kind}; boundary="bound"` }, body);
      expect(await finding(raw), kind).toMatchObject({ kind: "refused", code: "read-receipt" });
    }
    const text = { type: "text/plain", body: "CAUTION" };
    const flat = multipart("mixed", [text, { type: "message/disposition-notification", body: receipt }]);
    expect(await finding(flat)).toMatchObject({ code: "read-receipt" });
  });
});

describe("the reply that a report is about", () => {
  const older = "<key0.bridgehead@example.com>";
  const substitute = "<AM0PR01@x.prod.outlook.example>";
  const thread = { "In-Reply-To": substitute, References: `<c1@example.org> ${older} ${substitute}` };
  const text = { type: "text/plain", body: "Your message to gone@example.net couldn't be delivered.\n550 5.1.10 x" };
  const status = { type: "message/delivery-status", body: fields };
  const returned = (id: string) => ({
    type: "message/rfc822",
    body: `From: support@example.com\nMessage-ID: ${id}\nReferences: <c1@example.org> ${older}\n\nhi`,
  });
  const from = {
    From: "Mail Delivery System <MAILER-DAEMON@mx.example.net>",
    "Return-Path": "<>",
    Subject: "Undeliverable",
  };
  const reported = (parts: Parameters<typeof multipart>[1], more = {}) =>
    multipart("report; report-type=delivery-status", parts, { ...from, ...more });

  it.each([
    ["is the returned one", reported([text, status, returned(substitute)], thread)],
    [
      "is the returned one, without In-Reply-To",
      reported([text, status, returned(substitute)], { ...thread, "In-Reply-To": null }),
    ],
    ["is the returned one, in a report without fields", reported([text, returned(substitute)], thread)],
    ["is the answered one when nothing is returned", reported([text, status], thread)],
    ["is the last reference when nothing else is known", reported([text, status], { ...thread, "In-Reply-To": null })],
    ["is the returned one, in a text", mail({ ...from, ...thread }, `${text.body}\n\nMessage-ID: ${substitute}\n`)],
    ["is the answered one, in a text", mail({ ...from, ...thread }, text.body)],
  ])("%s, and not our earlier one of its thread", async (_, raw) => {
    const [event] = await delivered(raw);
    expect(event?.about.key).toBeUndefined();
    expect(event?.about.sent).toEqual([substitute]);
  });

  it("has the key of a returned Message-ID of ours, whatever else the report names", async () => {
    const raw = reported([text, status, returned(reply)], { "In-Reply-To": older, References: `${older} <x@y>` });
    expect((await delivered(raw))[0]?.about).toMatchObject({ key: "key1", sent: [reply, older] });
  });

  it("has the key of the answered Message-ID when nothing is returned", async () => {
    for (const more of [{ "In-Reply-To": reply }, { References: `<c1@example.org> ${older} ${reply}` }])
      expect((await delivered(reported([text, status], more)))[0]?.about).toMatchObject({ key: "key1" });
  });
});

describe("a delivery report that names no recipient with an action", () => {
  const report = (text: string, status: string | null, more = {}) =>
    multipart(
      "report; report-type=delivery-status",
      [
        { type: "text/plain", body: text },
        ...(status === null ? [] : [{ type: "message/delivery-status", body: `Reporting-MTA: dns; mx\n\n${status}` }]),
        { type: "message/rfc822", body: `Message-ID: ${reply}\nFrom: support@example.com\n\nhi` },
      ],
      { From: "MAILER-DAEMON@mx.example.net", "Return-Path": "<>", Subject: "Mail delivery", ...more },
    );
  const unknown = "550 5.1.1 <gone@example.net>: user unknown";
  const recipient = "Final-Recipient: rfc822; gone@example.net\n";
  it.each([
    ["no status part", report(unknown, null), true],
    ["no fields", report(unknown, ""), true],
    ["a recipient without a status", report("Your mail could not be delivered.", recipient), true],
    ["a diagnostic only", report("A report.", `${recipient}Diagnostic-Code: smtp; 550 user unknown\n`), true],
    [
      "a full mailbox in the diagnostic",
      report("Unzustellbar", `${recipient}Diagnostic-Code: smtp; 452 full\n`),
      false,
    ],
    ["another sender", report(unknown, null, { From: "it@example.net", "Return-Path": null }), true],
  ])("is a bounce by its text: %s", async (_, raw, permanent) => {
    expect(await delivered(raw)).toMatchObject([{ state: "failed", permanent, about: { key: "key1" } }]);
  });
  it("mentions the recipient that it names without an action", async () => {
    expect((await delivered(report("could not be delivered", recipient)))[0]?.about.mentioned).toEqual([
      "gone@example.net",
    ]);
  });

  const delivery = "Delivery Status Notification";
  it.each([
    ["delayed", report(unknown, `${recipient}Action: delayed\nStatus: 4.4.1\n`)],
    ["delivered", report(unknown, `${recipient}Action: delivered\nStatus: 2.0.0\n`)],
    ["delivered by its status", report(unknown, `${recipient}Status: 2.0.0\n`)],
    ["delayed by its subject", report("451 4.4.1 no answer", null, { Subject: `${delivery} (Delay)` })],
    ["still retried", report("not delivered: 451 4.4.1. We will retry for 46 hours.", null)],
    ["noch nicht zugestellt", report("Ihre Mail wurde noch nicht zugestellt.", null)],
    [
      "delivered by its text",
      report("Your mail has been successfully delivered.", null, { Subject: `${delivery} (Success)` }),
    ],
    ["without any sign of a failure", report("A report.", null)],
    ["with a temporary code alone", report("421 4.4.2 connection dropped", null)],
  ])("stays a report without a failed recipient: %s", async (_, raw) => {
    expect(await finding(raw)).toMatchObject({ kind: "refused", code: "delivery-report" });
  });
});

/** The text formats of servers, as they arrive when a gateway has removed the machine-readable part. */
const texts: readonly [string, Uint8Array][] = [
  [
    "Office 365",
    mail(
      {
        From: "Microsoft Outlook <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@example.onmicrosoft.com>",
        "Return-Path": null,
        Subject: "Undeliverable: Re: hi",
        "In-Reply-To": ours,
        References: ours,
      },
      `Your message to gone@example.net couldn't be delivered.\n\ngone wasn't found at example.net.\n\nsupport\tOffice 365\tgone\nAction Required\t\tRecipient\nUnknown To address\n\nHow to Fix It\nContact postmaster@example.net.\n\nOriginal Message Details\nCreated Date:\t5/3/2024 10:00:00 AM\nSender Address:\tsupport@example.com\nRecipient Address:\tgone@example.net\nSubject:\tRe: hi\n\nError Details\nReported error:\t550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient gone@example.net not found by SMTP address lookup\nDSN generated by:\tDB9PR05MB1234.eurprd05.prod.outlook.com\nRemote server:\t4.31.198.44\n`,
    ),
  ],
  [
    "Google",
    mail(
      {
        From: "Mail Delivery Subsystem <mailer-daemon@googlemail.com>",
        "Return-Path": "<>",
        "X-Failed-Recipients": "gone@example.net",
        Subject: "Delivery Status Notification (Failure)",
        "Auto-Submitted": "auto-replied",
        "In-Reply-To": ours,
        References: ours,
      },
      "\n** Address not found **\n\nYour message wasn't delivered to gone@example.net because the address couldn't be found, or is unable to receive mail.\n\nLearn more here: https://support.google.com/mail/?p=NoSuchUser\n\nThe response from the remote server was:\n550 5.1.1 <gone@example.net>: Recipient address rejected: User unknown\n",
    ),
  ],
  [
    "Yahoo",
    mail(
      { From: "MAILER-DAEMON@yahoo.com", "Return-Path": "<>", Subject: "Failure Notice" },
      `Sorry, we were unable to deliver your message to the following address.\n\n<gone@example.net>:\n554: delivery error: dd Not a valid recipient - atlas-production.v2-mail-prod1-gq1.omega.yahoo.com\n\n--- Below this line is a copy of the message.\n\nReceived: from [192.0.2.1] by sonic.gate.mail.ne1.yahoo.com\nFrom: Support <support@example.com>\nTo: gone@example.net\nMessage-ID: ${ours}\nSubject: Re: hi\n`,
    ),
  ],
  [
    "Exim",
    mail(
      exim,
      `This message was created automatically by mail delivery software.\n\nA message that you sent could not be delivered to one or more of its\nrecipients. This is a permanent error. The following address(es) failed:\n\n  gone@example.net\n    host mx.example.net [5.9.12.33]\n    SMTP error from remote mail server after RCPT TO:<gone@example.net>:\n    550 5.1.1 <gone@example.net>: User unknown\n\n------ This is a copy of the message, including all the headers. ------\n\nMessage-ID: ${ours}\nFrom: support@example.com\nTo: gone@example.net\n`,
    ),
  ],
  [
    "qmail",
    mail(
      { From: "MAILER-DAEMON@mx.example.net", "Return-Path": "<>", Subject: "failure notice" },
      `Hi. This is the qmail-send program at mx.example.net.\nI'm afraid I wasn't able to deliver your message to the following addresses.\nThis is a permanent error; I've given up. Sorry it didn't work out.\n\n<gone@example.net>:\nSorry, no mailbox here by that name. (#5.1.1)\n\n--- Below this line is a copy of the message.\n\nMessage-ID: ${ours}\n`,
    ),
  ],
  [
    "Postfix",
    mail(
      {
        From: "MAILER-DAEMON@mx.example.net (Mail Delivery System)",
        "Return-Path": "<>",
        Subject: "Undelivered Mail Returned to Sender",
        "Auto-Submitted": "auto-replied",
      },
      `This is the mail system at host mx.example.net.\n\nI'm sorry to have to inform you that your message could not\nbe delivered to one or more recipients. It's attached below.\n\nFor further assistance, please send mail to postmaster.\n\n                   The mail system\n\n<gone@example.net>: host mx2.example.net[192.0.2.7] said: 550 5.1.1\n    <gone@example.net>: Recipient address rejected: User unknown in virtual\n    mailbox table (in reply to RCPT TO command)\n\nMessage-ID: ${ours}\n`,
    ),
  ],
  [
    "DragonFly's agent",
    mail(
      { From: "MAILER-DAEMON <>", "Return-Path": null, Subject: "Mail delivery failed" },
      `This is the DragonFly Mail Agent v0.13 at mx.example.net.\n\nThere was an error delivering your mail to <gone@example.net>.\n\nmx2.example.net [192.0.2.7] did not like our RCPT TO:\n550 5.1.1 <gone@example.net> user unknown\n\nOriginal message follows.\n\nFrom: <support@example.com>\nMessage-Id: ${ours}\n`,
    ),
  ],
  [
    "Exchange",
    mail(
      { From: "System Administrator <postmaster@example.net>", "Return-Path": "<>", Subject: "Re: hi" },
      `Your message did not reach the following recipient(s):\n\n收件人（gone@example.net）不存在\n    The recipient name is not recognized\n\nMessage-ID: ${ours}\n`,
    ),
  ],
  [
    "InterScan",
    mail(
      { From: '"InterScan MSS" <postmaster@example.net>', Subject: "メッセージを配信できません。" },
      `Sent <<< RCPT TO:<gone@example.net>\nReceived >>> 550 5.1.1 <gone@example.net>... user unknown\n\nMessage-ID: ${ours}\n`,
    ),
  ],
];

describe("bounces without a machine-readable part", () => {
  it.each(texts)("of %s name the reply and the address", async (_, raw) => {
    const found = await finding(raw);
    expect(found).toMatchObject({ kind: "bounce", permanent: true, guessed: true });
    if (found.kind !== "bounce") return;
    expect(found.about).toContain(ours);
    expect(found.recipients[0]).toBe("gone@example.net");
    const events = await delivered(raw);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      state: "failed",
      permanent: true,
      about: { sent: expect.arrayContaining([ours]), mentioned: found.recipients },
    });
    expect(events[0]?.about.recipient).toBeUndefined();
  });

  it.each([
    ["a spam filter", "550 5.7.1 Message rejected as spam by content filtering"],
    ["a size limit", "552 5.3.4 Message size exceeds limit"],
    ["a full mailbox", "552 5.2.2 mailbox full"],
    ["a full mailbox without a code of its own", "552 disk quota exceeded"],
    ["a relay without codes", "host mx.example.net said:\n550 Administrative prohibition"],
    ["a bare 452", "452 try again"],
    ["a server that cannot be reached", "retry timeout exceeded"],
    ["a mailbox without a code", "the user's mailfolder is full"],
  ])("of %s do not say that the address is bad", async (_, text) => {
    const fields = { From: "MAILER-DAEMON@mx.example.net", "Return-Path": "<>", Subject: "failure notice" };
    const raw = mail(fields, `<gone@example.net>:\n${text}\n\nMessage-ID: ${ours}\n`);
    expect(await finding(raw)).toMatchObject({ kind: "bounce", permanent: false });
  });

  const exim = "This message was created automatically by mail delivery software.\nA message that you sent";
  it.each([
    [
      "Exim",
      "Warning: message 1abcde-000001-AB delayed 24 hours",
      `${exim} has not yet been\ndelivered to gone@example.net after more than 24 hours. Delivery attempts will continue.`,
    ],
    [
      "Google",
      "Delivery Status Notification (Delay)",
      "THIS IS A WARNING MESSAGE ONLY.\n\nDelivery to gone@example.net has been delayed.\nMessage will be retried for 2 more day(s)",
    ],
    [
      "Google, of a delivery",
      "Delivery Status Notification (Success)",
      "Your message was relayed to gone@example.net.",
    ],
    ["Exchange", "Relayed: Re: hi", "Delivery to gone@example.net is complete, but no delivery notification was sent"],
    ["a server", "Mail delivery", `${exim} could not be delivered to gone@example.net. It will be retried.`],
  ])("of a delay or a delivery are none: %s", async (_, subject, text) => {
    const raw = mail({ From: "MAILER-DAEMON@mx.example.net", Subject: subject }, `${text}\n\nMessage-ID: ${ours}\n`);
    expect(await finding(raw)).toMatchObject({ kind: "refused", code: "mailer-daemon" });
  });
  it.each([
    [
      "a subject about a delay",
      "Undeliverable: My parcel is delayed",
      "Your message\n  Subject: My parcel is delayed\n",
    ],
    ["a delay in the header of the message", "failure notice", "--- The message\n\nReceived: by x; delayed 300 s\n"],
    ["the end of the retries", "failure notice", "It will be retried no more. Giving up.\n"],
  ])("stay bounces with %s", async (_, subject, text) => {
    const body = `gone@example.net could not be delivered: 550 5.1.1 unknown\n${text}\nMessage-ID: ${ours}\n`;
    const raw = mail({ From: "MAILER-DAEMON@mx.example.net", Subject: subject }, body);
    expect(await finding(raw)).toMatchObject({ kind: "bounce", permanent: true, about: [ours] });
  });

  it("do not cite us by an answered Message-ID that is not ours, or in the mail of a person", async () => {
    const text = "Your message to gone@example.net couldn't be delivered.";
    const daemon = { From: "MAILER-DAEMON@mx.example.net", Subject: "Undeliverable", "In-Reply-To": "<a@b.example>" };
    expect(await finding(mail(daemon, text))).toMatchObject({ kind: "bounce", about: [] });
    const person = { Subject: "Re: Undeliverable parcel", "In-Reply-To": ours };
    expect(await finding(mail(person, text))).toEqual({ kind: "person" });
  });
});
