// Files that a responder attaches to an answer reach the customer unchanged where the customer's channel carries files;
// otherwise the responder is notified with their names. Files that programs add are not sent.

import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { pauseChannel, resumeChannel } from "../../../src/store/tables/pauses.ts";
import { eventually } from "../../support/clock.ts";
import {
  customer,
  dora,
  type EscalationDaemon,
  type EscalationDaemonOptions,
  emil,
  startEscalationDaemon,
} from "../../support/daemon/escalation-daemon.ts";
import type { Finished } from "../../support/daemon/mail-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { type MailStore, sharedDovecot } from "../../support/email/dovecot.ts";
import { type Enclosed, type Reply, withFiles } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

const pdf: Enclosed = {
  name: "invoice.pdf",
  bytes: randomBytes(100_000),
  headers: { "Content-Type": 'application/pdf; name="invoice.pdf"' },
};
const lines: Enclosed = {
  name: "lines.txt",
  bytes: Buffer.from("one\ntwo\r\n.\r\n--\rend "),
  headers: { "Content-Type": "text/plain; charset=utf-8" },
};
/** As mail programs put the picture of a signature into its HTML. */
const logo: Enclosed = {
  name: "logo.png",
  bytes: randomBytes(500),
  headers: {
    "Content-Type": "image/png",
    "Content-Disposition": 'inline; filename="logo.png"',
    "Content-ID": "<logo@people.example>",
  },
};

const quoted = (notice: Reply): string =>
  ["On Sat, 21 Nov 2026 at 20:57, Support wrote:", ...notice.text.split("\n").map((line) => `> ${line}`)].join("\n");

/** Dora replies to the notification with this text and files, her signature and the quoted notification. */
async function sends(daemon: EscalationDaemon, notice: Reply, words: string, ...files: Enclosed[]): Promise<void> {
  const text = [words, "-- \nDora Dahl\nHead of Support", quoted(notice)].join("\n\n");
  await daemon.write({
    from: dora.email,
    name: dora.name,
    subject: `Re: ${notice.subject}`,
    answers: notice,
    ...withFiles(text, files),
  });
}

const bare = (files: Reply["files"]) => files.map(({ name, bytes }) => ({ name, bytes }));
const same = (...files: Enclosed[]) => files.map(({ name, bytes }) => ({ name, bytes }));

/** A customer who mailed, and the mail that tells Dora of it. */
async function mailed(
  finished: Finished,
  options: EscalationDaemonOptions = {},
): Promise<{ daemon: EscalationDaemon; notice: Reply }> {
  const daemon = await startEscalationDaemon(finished, options);
  await daemon.write({ subject: "My lamp", text: "I want a refund" });
  await daemon.mailTo(customer);
  const notice = await daemon.mailTo(dora.email);
  await daemon.quiet();
  return { daemon, notice };
}

/** The notification to Dora about her reply, and the resulting state of the escalation. */
async function told(daemon: EscalationDaemon): Promise<string> {
  const { text } = await daemon.mailTo(dora.email, 1);
  await daemon.quiet();
  return text;
}

async function carriesFiles(daemon: EscalationDaemon, notice: Reply): Promise<void> {
  const pause = { channel: "mail", code: "operator", reason: "test", event: null, forMs: null } as const;
  await daemon.app().scheduler.commit((q) => pauseChannel(q, pause));
  await sends(daemon, notice, "Here it is.", pdf, lines, logo);
  const drafts = "SELECT body FROM drafts d JOIN replies r ON r.id = d.reply WHERE r.kind = 'human'";
  await eventually(async () => expect(await daemon.rows(drafts)).toHaveLength(1));
  const [draft] = await daemon.rows<{ body: string }>(drafts);
  expect(draft?.body.length, "the draft holds no bytes").toBeLessThan(5000);
  // Emil's notification has arrived: an interrupted send would stay in the outcome unknown for a while.
  await daemon.mailTo(emil.email, 1);
  await eventually(async () => expect(await daemon.rows("SELECT id FROM drafts WHERE open = 1")).toHaveLength(1));
  await daemon.restart(0);
  // The blobs of the original mail may already be deleted.
  await daemon.app().scheduler.commit((q) => q.run("UPDATE attachments SET blob = NULL"));
  expect(daemon.mailsTo(customer)).toHaveLength(1);
  await daemon.app().scheduler.commit((q) => resumeChannel(q, "mail"));
  const answer = await daemon.mailTo(customer, 1);
  expect(bare(answer.files)).toEqual(same(pdf, lines));
  expect(answer.files.map(({ mediaType }) => mediaType)).toEqual(["application/pdf", "text/plain"]);
  expect(answer.text).toMatch(/^Here it is\.\s+-- \s+The Team/);
  await daemon.quiet();
  expect((await daemon.transcript(customer)).at(-1)).toBe(
    "manual_assistant: Here it is.\n\n[invoice.pdf]\n[lines.txt]",
  );
  expect(JSON.stringify(daemon.questions())).not.toContain("Here it is");
  expect(daemon.mailsTo(dora.email)).toHaveLength(1);
  expect(daemon.mailsTo(customer)).toHaveLength(2);
}

describeReal("over a real mailbox", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["support"]);
  });
  afterAll(() => dovecot?.dispose());

  it("carries files to the customer, a restart between", async ({ onTestFinished }) => {
    const { daemon, notice } = await mailed(onTestFinished, { dovecot });
    await carriesFiles(daemon, notice);
  });
});

it.concurrent("carries files over the sandbox's mail server, a restart between", async ({ onTestFinished }) => {
  const { daemon, notice } = await mailed(onTestFinished);
  await carriesFiles(daemon, notice);
});

it.concurrent("accepts files without text as a reply", async ({ onTestFinished }) => {
  // The setting for file names in requests to the agent has no effect here.
  const { daemon, notice } = await mailed(onTestFinished, { mail: { attachments: { name_to_agent: false } } });
  await sends(daemon, notice, "", pdf);
  const answer = await daemon.mailTo(customer, 1);
  expect(bare(answer.files)).toEqual(same(pdf));
  expect(answer.text).toMatch(/^\[invoice\.pdf\]\s+-- \s+The Team/);
  expect(answer.text).not.toMatch(/Dora|Escalation|Number:/);
  await daemon.escalated("acknowledged");
  await daemon.quiet();
  expect((await daemon.transcript(customer)).at(-1)).toBe("manual_assistant: [invoice.pdf]");
  expect(daemon.mailsTo(dora.email)).toHaveLength(1);
});

it.concurrent("a number says whose the files are", async ({ onTestFinished }) => {
  const { daemon, notice } = await mailed(onTestFinished);
  await daemon.write({ from: "bert@customer.example", subject: "A refund", text: "I want a refund" });
  await daemon.mailTo(dora.email, 1);
  await sends(daemon, notice, "", pdf);
  const [first, second] = await daemon.escalations();
  await daemon.quiet();
  // Two customers, and a thread for each: the notice says which.
  expect(bare((await daemon.mailTo(customer, 1)).files)).toEqual(same(pdf));
  await sends(daemon, await daemon.mailTo(dora.email, 1), String(second?.number), lines);
  expect(bare((await daemon.mailTo("bert@customer.example", 1)).files)).toEqual(same(lines));
  await daemon.quiet();
  expect(first?.number).not.toBe(second?.number);
  expect(daemon.mailsTo(customer)).toHaveLength(2);
});

it.concurrent("an ok alone sends nothing, and a responder who attached a file to it is notified", async ({
  onTestFinished,
}) => {
  const { daemon, notice } = await mailed(onTestFinished);
  await sends(daemon, notice, "ok", logo);
  await daemon.escalated("acknowledged");
  await daemon.mailTo(emil.email, 1);
  await daemon.quiet();
  expect(await told(daemon), "a logo is nothing to speak of").toMatch(/^1: It is yours\. What you write now goes/);
  await sends(daemon, notice, "ok", pdf, logo);
  expect((await daemon.mailTo(dora.email, 2)).text).toContain(
    'Not sent to the customer: "invoice.pdf": a word that takes it',
  );
  expect(daemon.mailsTo(customer)).toHaveLength(1);
});

it.concurrent("what comes with a note stays among us", async ({ onTestFinished }) => {
  const { daemon, notice } = await mailed(onTestFinished);
  await sends(daemon, notice, "Soon.\n#note she has asked thrice", pdf);
  expect(await told(daemon)).toContain('"invoice.pdf": what comes with a #note stays among us');
  const answer = await daemon.mailTo(customer, 1);
  expect(answer.text).toMatch(/^Soon\./);
  expect(answer.files).toEqual([]);
});

it.concurrent("notifies a responder who attached files for a customer of a text channel", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  const notice = await daemon.mailTo(dora.email);
  await sends(daemon, notice, "It is on its way.", pdf, lines);
  expect(await daemon.textTo(anna, 1)).toBe("It is on its way.");
  expect(await told(daemon)).toContain(
    'Not sent to the customer: "invoice.pdf", "lines.txt": channel sms carries no files.',
  );
  expect((await daemon.transcript(anna)).at(-1)).toBe("manual_assistant: It is on its way.");
  await sends(daemon, notice, "", pdf);
  expect((await daemon.mailTo(dora.email, 2)).text).toContain('"invoice.pdf": channel sms carries no files.');
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toHaveLength(2);
});

it.concurrent("sends the files that fit, and reports the others; also for a mail that is too large to download", async ({
  onTestFinished,
}) => {
  const attachments = { max_sent_bytes: "120KB", max_bytes: "150KB" };
  const { daemon, notice } = await mailed(onTestFinished, { mail: { attachments, max_size: "600KB" } });
  const scan = { name: "scan.tiff", bytes: randomBytes(50_000) };
  const film = { name: "film.mov", bytes: randomBytes(160_000) };
  await sends(daemon, notice, "Here it is.", pdf, scan, film, lines);
  expect(await told(daemon)).toContain(
    'Not sent to the customer: "scan.tiff": more than 120 kB together; "film.mov": it is larger than 150 kB.',
  );
  expect(bare((await daemon.mailTo(customer, 1)).files)).toEqual(same(pdf, lines));
  await sends(daemon, notice, "And this.", { name: "all.zip", bytes: randomBytes(600_000) });
  expect((await daemon.mailTo(dora.email, 2)).text).toContain(
    'Not sent to the customer: "all.zip": the message is too large to be downloaded as a whole.',
  );
  expect((await daemon.mailTo(customer, 2)).text).toContain("And this.");
  await daemon.quiet();
  expect(daemon.mailsTo(customer)).toHaveLength(3);
});

it.concurrent("files that mail programs add are ignored", async ({ onTestFinished }) => {
  const { daemon, notice } = await mailed(onTestFinished);
  const type = (mediaType: string) => ({ headers: { "Content-Type": mediaType } });
  const bytes = Buffer.from("added");
  const added: Enclosed[] = [
    { name: "invite.ics", bytes, ...type("text/calendar; method=REPLY") },
    { name: "dora.vcf", bytes, ...type("text/vcard") },
    { name: "smime.p7s", bytes, ...type("application/pkcs7-signature") },
  ];
  await sends(daemon, notice, "Here it is.", ...added, lines);
  expect(bare((await daemon.mailTo(customer, 1)).files)).toEqual(same(lines));
  await daemon.quiet();
  expect(daemon.mailsTo(dora.email)).toHaveLength(1);
});

it.concurrent("unreadable files and files that contain our notification are not relayed", async ({
  onTestFinished,
}) => {
  const { daemon, notice } = await mailed(onTestFinished);
  const type = (mediaType: string) => ({ headers: { "Content-Type": mediaType } });
  const original = Buffer.from(`Subject: ${notice.subject}\r\n\r\n${notice.text}`);
  const bytes = Buffer.from("sealed");
  const answers: [string, ...Enclosed[]][] = [
    ["original.eml", { name: "original.eml", bytes: original, ...type("message/rfc822") }],
    ["winmail.dat", { name: "winmail.dat", bytes, ...type("application/ms-tnef") }],
    ["smime.p7m", { name: "smime.p7m", bytes }],
    [
      "version.asc",
      { name: "version.asc", bytes, ...type("application/pgp-encrypted") },
      { name: "encrypted.asc", bytes },
    ],
  ];
  for (const [at, [name, ...files]] of answers.entries()) {
    await sends(daemon, notice, "", ...files);
    expect((await daemon.mailTo(dora.email, at + 1)).text).toContain(`Not sent to the customer: "${name}": `);
  }
  await daemon.quiet();
  expect(daemon.mailsTo(customer)).toHaveLength(1);
  await daemon.escalated("acknowledged");
});

it.concurrent("names are names: no path, no header, any language", async ({ onTestFinished }) => {
  const { daemon, notice } = await mailed(onTestFinished);
  const encoded = (name: string): Enclosed => ({
    name,
    bytes: Buffer.from(name),
    headers: { "Content-Disposition": `attachment; filename*=UTF-8''${encodeURIComponent(name)}` },
  });
  const names = [
    "Rechnung für Änne 漢字 🎈.pdf",
    'a "quoted"; name=x.pdf',
    "../../etc/passwd",
    "C:\\temp\\evil.exe",
    "x.pdf\r\nBcc: thief@evil.example\r\n\r\n<b>",
  ];
  await sends(daemon, notice, "Here they are.", ...names.map(encoded));
  const answer = await daemon.mailTo(customer, 1);
  expect(answer.files.map(({ name }) => name)).toEqual([
    "Rechnung für Änne 漢字 🎈.pdf",
    "a _quoted_; name=x.pdf",
    "etc_passwd",
    "C_temp_evil.exe",
    "x.pdf Bcc_ thief@evil.example _b_",
  ]);
  expect(answer.files.map(({ bytes }) => bytes.toString())).toEqual(names);
  expect([answer.header("bcc"), answer.to]).toEqual(["", [customer]]);
  await daemon.quiet();
  expect((await daemon.transcript(customer)).at(-1)).toContain("[etc_passwd]\n[C_temp_evil.exe]\n[x.pdf Bcc_");
});
