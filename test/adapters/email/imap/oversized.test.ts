// Messages larger than max_size, on a real Dovecot: their text is answered, what they carry is listed by name and size.

import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { arrived, type Mailboxes, mail, ready, startMailboxes } from "../../../support/email/adapter.ts";
import { type MailStore, sharedDovecot } from "../../../support/email/dovecot.ts";
import { describeReal, need } from "../../../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

const boundary = (name: string) => ({
  "MIME-Version": "1.0",
  "Content-Type": `multipart/mixed; boundary="${name}"`,
});
const wrapped = (bytes: number) =>
  (
    Buffer.alloc(bytes, 7)
      .toString("base64")
      .match(/.{1,76}/g) ?? []
  ).join("\n");
const file = (name: string, type: string, content: string) =>
  `Content-Type: ${type}; name="${name}"\nContent-Disposition: attachment; filename="${name}"\nContent-Transfer-Encoding: base64\n\n${content}\n`;
const alternative =
  'Content-Type: multipart/alternative; boundary="in"\n\n--in\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nWo ist mein Gr=C3=BC=C3=9Fe-Paket?\n--in\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n<p>Wo ist mein <b>Gr=C3=BC=C3=9Fe</b>-Paket?</p>\n--in--\n';

describeReal("messages larger than max_size", missing, () => {
  let boxes: Mailboxes;
  let dovecot: MailStore;
  beforeAll(async () => {
    boxes = await startMailboxes(12, sharedDovecot);
    dovecot = boxes.dovecot;
  });
  afterEach(() => boxes.stopAll());
  afterAll(() => boxes?.dispose());

  const film = file("film.mp4", "video/mp4", wrapped(600_000));
  const pdf = file("offer.pdf", "application/pdf", wrapped(3000));
  const large = (body: string, headers = {}, id = "large") => mail(id, { ...boundary("out"), ...headers }, body);

  it("are asked by their text, with the attachments that are too large listed by name and size", async () => {
    const { channel, box } = await boxes.ready({ max_size: "200KB" });
    await dovecot.deliver(box, mail("before"));
    await dovecot.deliver(box, large(`--out\n${alternative}\n--out\n${film}--out\n${pdf}--out--\n`));
    await dovecot.deliver(box, mail("after"));
    await arrived(channel, 3);
    expect(channel.messages.map(({ subject }) => subject)).toEqual(["Mail before", "Mail large", "Mail after"]);
    const [, message] = channel.messages;
    expect(message).toMatchObject({
      from: { address: "ann@example.net" },
      cited: "<large@example.net>",
      text: "Wo ist mein Grüße-Paket?",
      notes: {
        attachments_too_large: expect.stringMatching(/^film\.mp4 \(video\/mp4, (?:59|60)\d{4} bytes\)$/),
      },
    });
    expect(message?.refusal).toBeUndefined();
    expect(message?.raw).toBeUndefined();
    expect(message?.attachments).toMatchObject([
      { name: "offer.pdf", named: true, bytes: expect.objectContaining({ length: 3000 }) },
      { name: "film.mp4", named: false, missing: expect.stringContaining("too large") },
    ]);
    await expect.poll(async () => (await dovecot.list(box))[1]?.flags).toContain("$Bridgehead");
  });

  it("are one message with the same text through another route", async () => {
    const { channel, box } = await boxes.ready({ max_size: "200KB" });
    const body = `--out\n${alternative}\n--out\n${film}--out--\n`;
    const date = { Date: "Fri, 3 May 2024 10:00:00 +0000" };
    await dovecot.deliver(box, large(body, date));
    await dovecot.deliver(box, large(body, { ...date, Subject: "[Talk] Mail large", "Delivered-To": "x@example.com" }));
    const events = () => channel.calls.flatMap((call) => call.events);
    await channel.until("both", () => events().length >= 2);
    const [first, second] = events().map((event) => event.kind === "message" && event.fingerprint);
    expect(second).toBe(first);
  });

  it("are classified like others: machines, bounces with a large original, encrypted mail", async () => {
    const { channel, box } = await boxes.ready({ max_size: "200KB" });
    await dovecot.deliver(
      box,
      large(`--out\n${alternative}\n--out\n${film}--out--\n`, { "Auto-Submitted": "auto-replied" }),
    );
    const report = `--out\nContent-Type: text/plain\n\nSorry.\n--out\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.net\n\nFinal-Recipient: rfc822; ann@example.net\nAction: failed\nStatus: 5.1.1\n\n--out\nContent-Type: message/rfc822\n\nMessage-ID: <01hzx7key.bridgehead@example.com>\nSubject: Re: hi\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="back"\n\n--back\n${film}--back--\n--out--\n`;
    await dovecot.deliver(
      box,
      mail(
        "bounce",
        {
          From: "MAILER-DAEMON@mx.example.net",
          "MIME-Version": "1.0",
          "Content-Type": 'multipart/report; report-type=delivery-status; boundary="out"',
        },
        report,
      ),
    );
    await dovecot.deliver(
      box,
      mail(
        "sealed",
        {
          "MIME-Version": "1.0",
          "Content-Type": "application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m",
          "Content-Transfer-Encoding": "base64",
        },
        wrapped(600_000),
      ),
    );
    await dovecot.deliver(box, mail("only a file", boundary("out"), `--out\n${film}--out--\n`));
    await arrived(channel, 3);
    expect(channel.messages.map(({ refusal }) => refusal?.code)).toEqual(["auto-reply", "smime-encrypted", undefined]);
    expect(channel.messages[2]?.notes?.["attachments_too_large"]).toMatch(/^film\.mp4 /);
    const delivery = channel.calls.flatMap((call) => call.events).find((event) => event.kind === "delivery");
    expect(delivery).toMatchObject({
      state: "failed",
      permanent: true,
      about: { key: "01hzx7key", recipient: "ann@example.net" },
    });
  });

  it("that are one file list it once, and store nothing of it", async () => {
    const { channel, box } = await boxes.ready({ max_size: "200KB" });
    const headers = {
      "MIME-Version": "1.0",
      "Content-Type": 'application/pdf;\n name="scan.pdf"',
      "Content-Disposition": 'attachment;\n filename="scan.pdf"',
      "Content-Transfer-Encoding": "base64",
    };
    await dovecot.deliver(box, mail("a scan", headers, wrapped(600_000)));
    await arrived(channel, 1);
    const [message] = channel.messages;
    expect(message).toMatchObject({ subject: "Mail a scan", text: "" });
    expect(message?.attachments).toEqual([
      expect.objectContaining({ name: "scan.pdf", mediaType: "application/pdf", missing: expect.any(String) }),
    ]);
    expect(message?.notes).toEqual({ attachments_too_large: expect.stringMatching(/^scan\.pdf \(application\/pdf, /) });
  });

  it("are not authenticated by a signature that cannot be verified, and by the server's header are", async () => {
    const own = boxes.open({ max_size: "200KB", sender_auth: { mode: "require" } });
    const header = boxes.open({
      max_size: "200KB",
      sender_auth: { mode: "require", by: "header", server: "mx.example.com" },
    });
    await Promise.all([ready(own.channel), ready(header.channel)]);
    const results = { "Authentication-Results": "mx.example.com; dmarc=pass header.from=example.net" };
    for (const { box } of [own, header])
      await dovecot.deliver(box, large(`--out\n${alternative}\n--out\n${film}--out--\n`, results));
    await Promise.all([arrived(own.channel, 1), arrived(header.channel, 1)]);
    expect(own.channel.messages[0]?.refusal).toMatchObject({
      code: "unauthenticated",
      reason: expect.stringContaining("too large"),
    });
    expect(header.channel.messages[0]).toMatchObject({
      sender: "verified",
      text: "Wo ist mein Grüße-Paket?",
    });
  });

  it("are settled when the sender's domain can never be checked, and keep no other mail waiting", async () => {
    const { channel, box } = boxes.open(
      { max_size: "200KB", sender_auth: { mode: "require", by: "header", server: "mx.example.com" } },
      { poll: "300ms" },
    );
    await ready(channel);
    const results = (verdict: string) => ({
      "Authentication-Results": `mx.example.com; dmarc=${verdict} header.from=example.net`,
    });
    await dovecot.deliver(box, large(`--out\n${alternative}\n--out\n${film}--out--\n`, results("temperror")));
    await dovecot.deliver(box, mail("after", results("pass")));
    await arrived(channel, 2);
    expect(channel.messages.map(({ subject, refusal }) => [subject, refusal?.code])).toEqual([
      ["Mail after", undefined],
      ["Mail large", "unauthenticated-temporary"],
    ]);
  });

  it("stay readable with a hostile structure", async () => {
    const { channel, box } = await boxes.ready({ max_size: "200KB" });
    const many = Array.from(
      { length: 3000 },
      (_, n) => `--out\nContent-Type: text/plain; name="f${n}"\n\n${"y".repeat(200)}\n`,
    ).join("");
    await dovecot.deliver(box, large(`${many}--out--\n`, {}, "many"));
    const deep = Array.from(
      { length: 60 },
      (_, n) => `Content-Type: multipart/mixed; boundary="d${n}"\n\n--d${n}\n`,
    ).join("");
    await dovecot.deliver(box, large(`--out\n${deep}Content-Type: text/plain\n\n${"z\n".repeat(200_000)}\n--out--\n`));
    await dovecot.deliver(box, large("x\n".repeat(200_000), {}, "bare"));
    await dovecot.deliver(box, mail("after"));
    await arrived(channel, 4);
    expect(channel.messages.at(-1)?.subject).toBe("Mail after");
  });
});
