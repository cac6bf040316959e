// Mail that must not be answered, or that cannot be parsed: every UID still ends as an event.

import { type DeliveryEvent, Health } from "bridgehead/contract";
import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { marker } from "../../../adapters/email/imap/mailbox.ts";
import { MailboxReader } from "../../../adapters/email/imap/reader.ts";
import { SentFolder } from "../../../adapters/email/imap/sent.ts";
import { identity } from "../../../adapters/email/parse/headers.ts";
import { standardTiming as timing } from "../../../adapters/email/timing.ts";
import {
  arrived,
  before,
  type Mailboxes,
  mail,
  nextSecond,
  ready,
  type Settings,
  settingsFor,
  startMailboxes,
  subjects,
  supervise,
} from "../../support/email/adapter.ts";
import { type MailStore, sharedDovecot } from "../../support/email/dovecot.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { freePort } from "../../support/machine/network.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

const bounce = (key: string, action = "failed") => `From: Mail Delivery System <MAILER-DAEMON@mx.example.net>
To: support@example.com
Subject: Undelivered Mail Returned to Sender
Message-ID: <bounce-${key}@mx.example.net>
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain

I'm sorry to have to inform you.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net
Original-Envelope-Id: ${key}

Final-Recipient: rfc822; ann@example.net
Action: ${action}
Status: ${action === "failed" ? "5.1.1" : "4.4.1"}
Diagnostic-Code: smtp; 550 5.1.1 no such user

--b
Content-Type: text/rfc822-headers

Message-ID: <${key}.bridgehead@example.com>
Subject: Re: Where is it?
From: support@example.com
To: ann@example.net

--b--
`;

describeReal("hostile mail", missing, () => {
  let boxes: Mailboxes;
  let dovecot: MailStore;
  beforeAll(async () => {
    boxes = await startMailboxes(20, sharedDovecot);
    dovecot = boxes.dovecot;
  });
  afterEach(() => boxes.stopAll());
  afterAll(() => boxes?.dispose());

  it.each([
    ["own", { From: "support@example.com" }],
    ["own", { "Message-ID": "<01hzx7key.bridgehead@example.com>" }],
    ["auto-reply", { "Auto-Submitted": "auto-replied" }],
    ["list", { "List-Id": "<x.example.net>" }],
    ["no-reply", { From: "no-reply@example.net" }],
    ["not-addressed", { To: "somebody@example.net" }],
  ])("is stored as %s", async (code, headers) => {
    const { channel, box } = await boxes.ready({}, {}, undefined, one);
    await dovecot.deliver(box, mail(code, headers));
    await arrived(channel, 1);
    expect(channel.messages[0]?.refusal?.code).toBe(code);
    expect(channel.messages[0]?.raw?.length).toBeGreaterThan(0);
  });
  const one = "support0";

  it("is downloaded in part when it is too large", async () => {
    boxes.fresh();
    const { channel, box } = await boxes.ready({ max_size: "400KB" });
    await dovecot.deliver(box, mail("large", {}, "x".repeat(70).concat("\n").repeat(8000)));
    await dovecot.deliver(box, mail("middle", {}, "x".repeat(70).concat("\n").repeat(5000)));
    await dovecot.deliver(box, mail("small"));
    await arrived(channel, 3);
    const [large, middle, small] = channel.messages;
    expect(large).toMatchObject({
      from: { address: "ann@example.net", name: "Ann" },
      subject: "Mail large",
      cited: "<large@example.net>",
      notes: { text_truncated: expect.stringContaining("too large") },
    });
    expect(large?.refusal).toBeUndefined();
    expect(large?.text.length).toBeGreaterThan(300_000);
    expect(large?.text.length).toBeLessThan(400_000);
    expect(large?.raw).toBeUndefined();
    expect(middle?.refusal).toBeUndefined();
    expect(middle?.text.length).toBeGreaterThan(300_000);
    expect(small?.refusal).toBeUndefined();
  });

  it("does not hold up others when it has no content, and is given up after some looks", async () => {
    const earlier = boxes.open();
    await ready(earlier.channel);
    await earlier.supervised.stop();
    const { box } = earlier;
    await dovecot.deliver(box, "");
    await dovecot.deliver(box, mail("after"));
    earlier.channel.hold();
    const { channel, supervised } = boxes.open({}, {}, earlier.channel, box);
    await channel.until("accept", (c) => c.calls.some((call) => call.events.length > 0));
    channel.release();
    await arrived(channel, 1);
    expect(subjects(channel)).toEqual(["Mail after"]);
    // The cursor stays before the mail that could not be read; a new start does not bring the other one again.
    expect(channel.cursor).toContain('"uid":0');
    await supervised.stop();
    const again = boxes.open({}, { poll: "1s" }, channel, box);
    await arrived(channel, 2);
    await again.supervised.stop();
    expect(channel.messages[1]).toMatchObject({
      refusal: { code: "unreadable", hold: true },
      id: expect.stringMatching(/\/1$/),
    });
    expect(channel.cursor).toContain('"uid":2');
    expect(channel.calls.flatMap((call) => call.events)).toHaveLength(2);
  });

  it("is forgotten when it vanishes before it was read", async () => {
    const { channel, box } = await boxes.ready();
    await dovecot.deliver(box, "");
    await expect.poll(async () => (await dovecot.list(box)).length).toBe(1);
    await dovecot.remove(box, 1);
    await dovecot.deliver(box, mail("after"));
    await arrived(channel, 1);
    await channel.until("cursor", (c) => c.cursor?.includes('"uid":2') === true);
    expect(subjects(channel)).toEqual(["Mail after"]);
  });

  it.each([
    ["no header at all", "just text\n"],
    ["only line ends", "\n\n\n\n"],
    ["zeros", "\0\0\0\0\n\0\n"],
    ["no sender", mail("x", { From: "" })],
    ["nothing but a sender", "From: ann@example.net\n\n"],
    ["two senders", mail("x", { From: "a@example.net, b@example.net" })],
    ["an endless line", mail("x", { Subject: "y".repeat(300_000) })],
    [
      "deep nesting",
      mail(
        "x",
        { "Content-Type": 'multipart/mixed; boundary="q"' },
        "--q\nContent-Type: multipart/mixed; boundary=q\n\n".repeat(3000),
      ),
    ],
  ])("with %s becomes one event, and the next mail is read", async (_what, raw) => {
    const { channel, box } = await boxes.ready({ bcc: "answer" }, {}, undefined, one);
    const before = channel.messages.length;
    await dovecot.deliver(box, raw);
    await dovecot.deliver(box, mail(`after`, { "Message-ID": `<${Math.random()}@example.net>` }));
    await channel.until("both", (c) => c.messages.length + (c.stored.length - c.messages.length) >= before + 2, 15_000);
    expect(channel.messages.at(-1)?.text.trim()).toBe("Question after");
  });

  it("is held when its header is too large, also for a line of the server's response", async () => {
    const { channel, box } = await boxes.ready({}, {}, before());
    const copies = Array.from({ length: 50_000 }, (_, i) => `copy${i}@many.example.net`).join(",\n ");
    const head = { From: "=?utf-8?Q?J=C3=B6rg?= <ann@example.net>", "In-Reply-To": "<up@example.net>" };
    await dovecot.deliver(box, mail("wide", { ...head, Cc: copies }));
    await dovecot.deliver(box, mail("wide robot", { ...head, Cc: copies, "Auto-Submitted": "auto-replied" }));
    await dovecot.deliver(box, mail("wide null sender", { ...head, Cc: copies, "Return-Path": "<MAILER-DAEMON>" }));
    await dovecot.deliver(box, mail("after"));
    await arrived(channel, 4);
    expect(subjects(channel)).toEqual(["Mail wide", "Mail wide robot", "Mail wide null sender", "Mail after"]);
    const [wide, robot, nullSender] = channel.messages;
    expect(wide).toMatchObject({
      from: { address: "ann@example.net", name: "Jörg" },
      thread: { answers: ["<up@example.net>"] },
      refusal: { code: "unparsable", hold: true },
    });
    expect(robot?.refusal).toEqual({ code: "unparsable", reason: wide?.refusal?.reason });
    expect(nullSender?.refusal).toEqual(robot?.refusal);
  });

  it("cites the same surrogate for the same mail without an id", async () => {
    const { channel, box } = await boxes.ready({}, {}, before());
    await dovecot.deliver(box, mail("x", { "Message-ID": "" }));
    await arrived(channel, 1);
    const cited = channel.messages[0]?.cited;
    expect(cited).toMatch(/^<[0-9a-f]{40}@no-message-id\.invalid>$/);
    await dovecot.changeUidValidity(box);
    await dovecot.deliver(box, mail("y"));
    await arrived(channel, 2);
    expect(subjects(channel)).toEqual(["Mail x", "Mail y"]);
  });

  it("finds the draft that a bounce is about", async () => {
    const { channel, box } = await boxes.ready();
    await dovecot.deliver(box, bounce("01hzx7key"));
    await channel.until("a receipt", (c) => c.stored.length > 0);
    const [event] = channel.stored as DeliveryEvent[];
    expect(event).toMatchObject({ kind: "delivery", state: "failed", permanent: true });
    expect(event?.about).toMatchObject({ key: "01hzx7key", recipient: "ann@example.net" });
    expect(event?.about.sent).toContain("<01hzx7key.bridgehead@example.com>");
    expect(event?.raw?.length).toBeGreaterThan(0);
  });

  it("does not classify a delay report as a bounce", async () => {
    const { channel, box } = await boxes.ready();
    await dovecot.deliver(box, bounce("01hzx7key", "delayed"));
    await arrived(channel, 1);
    expect(channel.messages[0]?.refusal?.code).toBe("delivery-report");
  });

  it("is tagged or refused when its sender is not authenticated", async () => {
    const by = { by: "header", server: "mx.example.com" } as const;
    const verdict = (result: string) => ({
      "Authentication-Results": `mx.example.com; dmarc=${result} header.from=example.net`,
    });
    const tag = boxes.open({ sender_auth: { mode: "tag", ...by } });
    const require = boxes.open({ sender_auth: { mode: "require", ...by } });
    await Promise.all([ready(tag.channel), ready(require.channel)]);
    for (const { box } of [tag, require]) {
      await dovecot.deliver(box, mail("good", verdict("pass")));
      await dovecot.deliver(box, mail("bad", verdict("fail")));
      await dovecot.deliver(box, mail("none"));
    }
    await Promise.all([arrived(tag.channel, 3), arrived(require.channel, 3)]);
    expect(tag.channel.messages.map((m) => m.notes?.["sender"])).toEqual(["verified", "unverified", "unverified"]);
    expect(tag.channel.messages.every((m) => m.refusal === undefined)).toBe(true);
    expect(require.channel.messages.map((m) => m.refusal?.code)).toEqual([
      undefined,
      "unauthenticated",
      "unauthenticated",
    ]);
  });

  it("bounds its wait for a name server that does not answer", async () => {
    const dns = [`127.0.0.1:${await freePort()}`];
    const { channel, box } = boxes.open(
      { sender_auth: { mode: "require", dns } },
      { poll: "1s" },
      recordingChannel({ since: nextSecond(), timing: { unread: 20 } }),
    );
    await ready(channel);
    await dovecot.deliver(box, mail("x"));
    await channel.until("settled", (c) => c.messages.length > 0);
    expect(channel.messages[0]?.refusal?.code).toBe("unauthenticated-temporary");
    expect(channel.messages[0]?.from.address).toBe("ann@example.net");
  });

  it("becomes an event when the parser gives it up", async () => {
    const box = boxes.fresh();
    const channel = recordingChannel();
    const settings = settingsFor(dovecot.port, 1, { imap: { user: dovecot.login(box) } as Settings["imap"] });
    const connection = { imap: settings.imap, timing, maxSource: settings.max_size, tokens: null };
    const reader = new MailboxReader({
      channel,
      connection,
      sent: new SentFolder({ connection, folder: "auto", log: channel.log }),
      health: new Health(channel),
      config: settings,
      self: identity("support@example.com", []),
      context: { senderAuth: { mode: "off" } },
      mark: marker(settings.mark, channel.log),
      idleLimit: Number.POSITIVE_INFINITY,
      parser: () => ({
        read: () => Promise.resolve({ ok: false, code: "too-slow", reason: "planted" }),
        close: () => Promise.resolve(),
      }),
    });
    const running = supervise({ run: (cursor, signal) => reader.run(cursor, signal) }, channel);
    await ready(channel);
    await dovecot.deliver(box, mail("slow"));
    await arrived(channel, 1);
    await running.stop();
    expect(channel.messages[0]).toMatchObject({
      refusal: { code: "too-slow", reason: "planted", hold: true },
      from: { address: "ann@example.net" },
      subject: "Mail slow",
    });
    expect(channel.messages[0]?.raw?.length).toBeGreaterThan(0);
  });

  it("names its attachments to the agent, and keeps so many of them", async () => {
    const { channel, box } = await boxes.ready({ attachments: { max_count: 1, max_bytes: "10KB" } });
    const part = (name: string, size: number) =>
      `--q\nContent-Type: application/pdf; name="${name}"\nContent-Disposition: attachment; filename="${name}"\n\n${"z".repeat(size)}\n`;
    await dovecot.deliver(
      box,
      mail(
        "files",
        { "Content-Type": 'multipart/mixed; boundary="q"', "MIME-Version": "1.0" },
        `--q\nContent-Type: text/plain\n\nSee files.\n${part("a.pdf", 10)}${part("big.pdf", 20_000)}${part("c.pdf", 10)}--q--`,
      ),
    );
    await arrived(channel, 1);
    const [message] = channel.messages;
    expect(message?.attachments?.map((file) => [file.name, file.named, "bytes" in file])).toEqual([
      ["a.pdf", true, true],
      ["big.pdf", false, false],
      ["c.pdf", false, false],
    ]);
    expect(message?.notes?.["attachments_not_kept"]).toMatch(/^big\.pdf .*20000 bytes.*, c\.pdf /);
  });
});
