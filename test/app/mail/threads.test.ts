// How threads are found where mail programs and relays lose what they should keep, and what the agent gets to read.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import { startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { lastLine } from "../../support/daemon/platform.ts";
import { type MailStore, sharedDovecot } from "../../support/email/dovecot.ts";
import { letter, mailOf, withFiles } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const users =
  "marker plus server twice without large quoted files cc history routes forged copies circular sealed".split(" ");
const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("threads, and what is read in them", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(users);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("finds the thread by the line in the quoted body", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "marker" });
    const first = await daemon.write();
    const reply = await daemon.replyTo(first);
    const quoted = `And now?\n\nOn Fri, 3 May 2024 at 10:00, Support <${daemon.address}> wrote:\n${reply.text.replace(/^/gm, "> ")}`;
    const second = await daemon.write({ text: quoted, subject: "Re: lost" });
    await daemon.replyTo(second);
    expect(daemon.conversations()).toBe(1);
    expect(await daemon.rows("SELECT id FROM conversations")).toHaveLength(1);
    expect(
      daemon
        .questions()
        .map((one) => one.text)
        .at(-1),
    ).toBe("And now?");
    const elsewhere = await daemon.write({ text: quoted, from: "mallory@elsewhere.example" });
    await daemon.replyTo(elsewhere);
    expect(await daemon.rows("SELECT id FROM conversations"), "the line alone lets nobody in").toHaveLength(2);
  });

  it.concurrent("finds the thread by the address", async ({ onTestFinished }) => {
    const channel = { token_address: true, body_marker: false };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "plus", channel });
    const first = await daemon.write();
    const reply = await daemon.replyTo(first);
    expect(reply.header("reply-to")).toMatch(/plus\+[a-z0-9]+@plus\.example/);
    const second = await daemon.write({ to: reply.header("reply-to") });
    await daemon.settled([first, second]);
    expect(await daemon.rows("SELECT id FROM conversations")).toHaveLength(1);
  });

  it.concurrent("stores the Message-ID that the server assigned to the mail", async ({ onTestFinished }) => {
    const smtp = {
      confirmation: () => "2.0.0 Ok <0102-given@x.prod.outlook.com> [Hostname=x.prod.outlook.com]",
    };
    const channel = { body_marker: false };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "server", smtp, channel });
    const first = await daemon.write();
    await daemon.replyTo(first);
    const second = await daemon.write({ answers: { messageId: "<0102-given@x.prod.outlook.com>" } });
    await daemon.settled([first, second]);
    expect(await daemon.rows("SELECT id FROM conversations")).toHaveLength(1);
  });

  it.concurrent("answers a mail once that lies in the mailbox twice", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "twice" });
    const mail = await daemon.write();
    await daemon.settled([mail]);
    await daemon.deliver(mail.raw);
    await eventually(async () => expect(await daemon.rows("SELECT id FROM events")).toHaveLength(2));
    await daemon.settled([mail]);
    expect(await daemon.rows("SELECT state, code FROM events ORDER BY id DESC LIMIT 1")).toEqual([
      { state: "ignored", code: "duplicate" },
    ]);
  });

  it.concurrent("answers a mail without a Message-ID", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "without" });
    await daemon.write({ headers: { "Message-ID": "" }, subject: "No id" });
    await eventually(async () => expect(await daemon.replies()).toHaveLength(1));
    expect((await daemon.replies())[0]).toMatchObject({ inReplyTo: "", references: [], subject: "Re: No id" });
  });

  it.concurrent("asks the text of what is too large, and tells the agent what it carries", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "large", channel: { max_size: "20KB" } });
    const film = { name: "film.mp4", bytes: Buffer.alloc(50_000, 1) };
    const big = await daemon.write({ subject: "Big", ...withFiles("Does it play?", [film]) });
    await daemon.replyTo(big);
    const [question] = daemon.questions();
    expect(question?.text).toContain("Does it play?");
    const [turn] = await daemon.rows("SELECT context FROM turns");
    expect(turn?.["context"]).toMatch(/attachments_too_large: film\.mp4 \(.*, \d{5} bytes\)/);
  });

  it.concurrent("holds a mail whose encrypted part is too large to be downloaded", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "sealed", channel: { max_size: "20KB" } });
    const files = ["message.rpmsg", "smime.p7m", "message.asc", "winmail.dat"];
    for (const name of files)
      await daemon.write(withFiles("Open the attachment.", [{ name, bytes: Buffer.alloc(50_000, 1) }]));
    await eventually(async () =>
      expect(await daemon.rows("SELECT state, code FROM events ORDER BY id")).toEqual(
        ["rights-protected", "smime-encrypted", "pgp-encrypted", "winmail"].map((code) => ({
          state: "held",
          code,
        })),
      ),
    );
    expect(daemon.questions()).toEqual([]);
  });

  it.concurrent("answers one message once that arrives through the alias and a list", async ({ onTestFinished }) => {
    const channel = { aliases: ["alias@twice.example"], accept_lists: ["talk@lists.example"] };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "routes", channel });
    const text = "Where is my parcel?";
    const direct = await daemon.write({ text });
    const routed = (headers: Readonly<Record<string, string>>, footer = "") =>
      daemon.deliver(
        mailOf(
          {
            From: `"Anna via Talk" <talk@lists.example>`,
            To: "talk@lists.example",
            "Reply-To": `Anna <${direct.from}>`,
            Subject: `[Talk] ${direct.subject}`,
            "Message-ID": direct.messageId,
            Date: /^Date: (.*?)\r?$/m.exec(direct.raw)?.[1] ?? "",
            ...headers,
          },
          `${text}\n${footer}`,
        ),
      );
    await routed(
      { "List-Post": "<mailto:talk@lists.example>" },
      "\n-- \nTo unsubscribe write to talk-leave@lists.example\n",
    );
    await routed({
      From: `Anna <${direct.from}>`,
      To: "alias@twice.example",
      "Delivered-To": "alias@twice.example",
    });
    const other = await daemon.write({ text: "thanks" });
    await daemon.settled([direct, other]);
    expect(await daemon.rows("SELECT code FROM events WHERE state = 'ignored'")).toEqual([
      { code: "duplicate" },
      { code: "duplicate" },
    ]);
  });

  it.concurrent("answers From when a forged mail in the thread names another Reply-To", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "forged", channel: { reply: "all" } });
    const mallory = "mallory@evil.example";
    const first = await daemon.write();
    const answers = await daemon.replyTo(first);
    const headers = { "Reply-To": `Anna <${mallory}>`, Cc: mallory };
    const forged = await daemon.write({ answers, headers });
    const reply = await daemon.replyTo(forged);
    expect(reply.to).toEqual([first.from]);
    // Nor does the forged Cc let the attacker into the conversation.
    const intruder = await daemon.write({ from: mallory, answers: reply });
    expect((await daemon.replyTo(intruder)).to).toEqual([mallory]);
    await daemon.settled([first, forged, intruder]);
    expect(await daemon.rows("SELECT person FROM conversations ORDER BY id")).toEqual([
      { person: first.from },
      { person: mallory },
    ]);
  });

  it.concurrent("answers a mail although one of its recipients has sent a copy under another name first", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "copies" });
    const mallory = "mallory@evil.example";
    const mail = letter(daemon.address);
    await daemon.deliver(mail.raw.replaceAll(mail.from, mallory));
    await daemon.replyTo(mail);
    await daemon.deliver(mail.raw);
    await eventually(async () =>
      expect((await daemon.replies()).map(({ to }) => to)).toEqual([[mallory], [mail.from]]),
    );
    expect(await daemon.rows("SELECT person FROM conversations ORDER BY id")).toEqual([
      { person: mallory },
      { person: mail.from },
    ]);
  });

  it.concurrent("answers the author alone when a mail has very many recipients", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "circular", channel: { reply: "all" } });
    const victims = Array.from({ length: 3000 }, (_, n) => `v${n}@customer.example`);
    const mail = await daemon.write({ headers: { Cc: victims.join(",\r\n ") } });
    expect((await daemon.replyTo(mail)).to).toEqual([mail.from]);
  });

  it.concurrent("asks only what is new in the mail", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "quoted" });
    const first = await daemon.write({ subject: "Lamp", text: "Does it fit?" });
    const reply = await daemon.replyTo(first);
    const text = `It does not.\n\nOn Fri, 3 May 2024 at 10:00, Support <${daemon.address}> wrote:\n> ${reply.text.split("\n")[0]}\n\n-- \nAnna\n+49 123`;
    const second = await daemon.write({ answers: reply, text });
    await daemon.replyTo(second);
    expect(daemon.questions().map((one) => one.text)).toEqual(["Subject: Lamp\n\nDoes it fit?", "It does not."]);
  });

  it.concurrent("names what is attached", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "files" });
    const plain = letter(daemon.address);
    const body = [
      "--b\r\nContent-Type: text/plain\r\n\r\nSee the picture.",
      '--b\r\nContent-Type: image/png; name="lamp.png"\r\nContent-Disposition: attachment; filename="lamp.png"\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=',
      "--b--",
    ].join("\r\n");
    const headers = { From: plain.from, To: daemon.address, Subject: "Broken", "Message-ID": plain.messageId };
    await daemon.deliver(
      mailOf({ ...headers, "MIME-Version": "1.0", "Content-Type": 'multipart/mixed; boundary="b"' }, body),
    );
    await daemon.replyTo(plain);
    expect(daemon.questions()[0]?.text).toMatch(/See the picture\.\n\n\[Attachment: lamp\.png \(image\/png, 1 kB\)\]$/);
  });

  it.concurrent("answers everybody where that is wanted, and only people in the thread", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "cc", channel: { reply: "all" } });
    const mail = await daemon.write({ headers: { Cc: `Ben <ben@customer.example>, ${daemon.address}` } });
    const reply = await daemon.replyTo(mail);
    expect(reply.to).toEqual(["anna@customer.example", "ben@customer.example"]);
    const fromBen = await daemon.write({ from: "ben@customer.example", answers: reply });
    await daemon.settled([mail, fromBen]);
    expect(await daemon.rows("SELECT id FROM conversations"), "Ben takes part").toHaveLength(1);
  });

  it.concurrent("answers on the first start what is younger than the history that is wanted", async ({
    onTestFinished,
  }) => {
    const channel = { first_start: { history: "1h" } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "history", channel, stopped: true });
    const mail = await daemon.write();
    await daemon.start();
    await daemon.settled([mail]);
    expect(lastLine(daemon.questions()[0]?.text ?? "")).toBe(mail.text);
  });
});
