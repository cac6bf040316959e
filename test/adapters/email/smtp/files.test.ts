// Files in an outbound mail: unchanged bytes, sanitized names, and the same mail at every attempt.

import { fileRef, type ReplyAttachment } from "bridgehead/contract";
import * as fc from "fast-check";
import PostalMime from "postal-mime";
import { expect, it } from "vitest";
import { config as schema } from "../../../../adapters/email/config.ts";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import { compose } from "../../../../adapters/email/smtp/compose.ts";
import { type EmailDraft, messageBytes, readDraft } from "../../../../adapters/email/smtp/send.ts";
import { replyTo } from "../../../support/email/adapter.ts";

const server = { host: "127.0.0.1", tls: "none" } as const;
const settings = schema.parse({
  imap: { ...server, user: "support@example.com", password: "x" },
  smtp: server,
});
const self = identity("support@example.com", []);
const reply = replyTo({ byHuman: true });

function draftWith(files: readonly Partial<ReplyAttachment>[]): EmailDraft {
  const attachments = files.map((file, index) => ({
    name: "a.bin",
    mediaType: "application/octet-stream",
    size: 1,
    ref: fileRef(`ref${index}`),
    ...file,
  }));
  const [draft] = compose(settings, self, { ...reply, attachments });
  if (!draft) throw new Error("no draft");
  return readDraft(JSON.parse(JSON.stringify(draft)));
}

async function arrives(files: readonly (Partial<ReplyAttachment> & { readonly bytes: Uint8Array })[]) {
  const draft = draftWith(files);
  const raw = await messageBytes(
    draft,
    files.map(({ bytes }) => bytes),
  );
  const mail = await PostalMime.parse(raw);
  const taken = mail.attachments.map(({ filename, mimeType, disposition, content }) => ({
    name: filename,
    mediaType: mimeType,
    disposition,
    bytes: Buffer.from(typeof content === "string" ? content : new Uint8Array(content)),
  }));
  return { raw: raw.toString("latin1"), mail, taken };
}

it("carries the bytes unchanged, under any file name", async () => {
  const types = ["text/plain", "text/html", "message/rfc822", "image/png", "application/pdf", "multipart/mixed"];
  const one = fc.record({ bytes: fc.uint8Array({ maxLength: 300 }), mediaType: fc.constantFrom(...types) });
  await fc.assert(
    fc.asyncProperty(fc.array(one, { minLength: 1, maxLength: 4 }), async (files) => {
      const { taken, mail } = await arrives(files);
      expect(taken.map(({ bytes }) => bytes.toString("hex"))).toEqual(
        files.map(({ bytes }) => Buffer.from(bytes).toString("hex")),
      );
      expect(taken.every(({ disposition }) => disposition === "attachment")).toBe(true);
      expect(mail.text).toContain("It is here.");
    }),
    { numRuns: 60 },
  );
});

it("keeps the type, but of what must not be encoded", async () => {
  const bytes = Buffer.from("x");
  const given = ["application/pdf", "Text/CSV", "message/rfc822", "multipart/mixed", 'text/plain; name="x"', ""];
  const { taken } = await arrives(given.map((mediaType) => ({ mediaType, bytes })));
  const unknown = "application/octet-stream";
  expect(taken.map(({ mediaType }) => mediaType)).toEqual([
    "application/pdf",
    "text/csv",
    unknown,
    unknown,
    unknown,
    unknown,
  ]);
});

it.each([
  ["invoice.pdf", "invoice.pdf"],
  ["Rechnung für Änne 漢字 🎈.pdf", "Rechnung für Änne 漢字 🎈.pdf"],
  [`${"long ".repeat(60)}name.pdf`, `${"long ".repeat(60).slice(0, 196)}.pdf`],
  ['a "b".pdf', "a _b_.pdf"],
  ["it's a file; filename=x.exe", "it's a file; filename=x.exe"],
  ["../../../etc/passwd", "etc_passwd"],
  ["C:\\windows\\x.exe", "C_windows_x.exe"],
  ["a\r\nBcc: thief@evil.example\r\n\r\n--01hzx7key", "a Bcc_ thief@evil.example --01hzx7key"],
  ["=?utf-8?Q?evil=0D=0A?=", "=_utf-8_Q_evil=0D=0A_="],
  ["\u202efdp.exe", "fdp.exe"],
  ["%2e%2e%2fetc", "%2e%2e%2fetc"],
  ["  ", "attachment"],
  ["..", "attachment"],
])("the name %j is %j", async (name, expected) => {
  const { taken, mail, raw } = await arrives([{ name, bytes: Buffer.from("x") }]);
  expect(taken.map((one) => one.name)).toEqual([expected]);
  expect(mail.headers.map(({ key }) => key)).not.toContain("bcc");
  const head = raw.slice(raw.indexOf("Content-Type: application/octet-stream"));
  const fields = head
    .slice(0, head.indexOf("\r\n\r\n"))
    .split(/\r\n(?![ \t])/)
    .map((line) => line.slice(0, line.indexOf(":")));
  expect(fields.sort()).toEqual(["Content-Disposition", "Content-Transfer-Encoding", "Content-Type"]);
});

it("is the same mail at every attempt", async () => {
  const draft = draftWith([{ name: "ü.pdf" }, { name: "b.txt", mediaType: "text/plain" }]);
  const files = [Buffer.from("one"), Buffer.from("two\n")];
  expect(await messageBytes(readDraft(JSON.parse(JSON.stringify(draft))), files)).toEqual(
    await messageBytes(draft, files),
  );
  await expect(messageBytes(draft, files.slice(1))).rejects.toThrow("the bytes of an attachment are missing");
});
