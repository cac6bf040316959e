import * as fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import type { ParseContext } from "../../../../adapters/email/parse/mail.ts";
import { Parser } from "../../../../adapters/email/parse/parser.ts";
import { standardTiming as timing } from "../../../../adapters/email/timing.ts";
import { systemClock } from "../../../../src/ops/clock.ts";
import { workedMs } from "../../../support/clock.ts";
import { html, mail, multipart, parts } from "../../../support/email/mails.ts";

const off: ParseContext = { senderAuth: { mode: "off" } };
const parser = new Parser({ clock: systemClock, timing: { ...timing, parse: 15_000 } });
afterAll(() => parser.close());

const nested = (depth: number) => {
  let body = "Content-Type: text/plain\n\nend\n";
  for (let i = 0; i < depth; i++)
    body = `Content-Type: multipart/mixed; boundary="b${i}"\n\n--b${i}\n${body}\n--b${i}--\n`;
  return Buffer.from(`From: a@example.org\n${body}`);
};
const carried = (depth: number) => {
  let body = "Subject: end\n\nend";
  for (let i = 0; i < depth; i++) body = `Subject: ${i}\nContent-Type: message/rfc822\n\n${body}`;
  return Buffer.from(`From: a@example.org\n${body}`);
};

/** Mails that are made to hurt. */
const hostile: readonly [string, () => Uint8Array][] = [
  ["nothing", () => new Uint8Array()],
  ["only a line end", () => Buffer.from("\r\n")],
  ["only NUL", () => Buffer.alloc(1000)],
  ["no header", () => Buffer.from("just words")],
  ["header without end", () => Buffer.from("From: a@b")],
  [
    "10,000 parts",
    () =>
      multipart(
        "mixed",
        Array.from({ length: 10_000 }, () => ({ type: "text/plain", body: "x" })),
      ),
  ],
  [
    "10,000 attachments",
    () =>
      multipart(
        "mixed",
        Array.from({ length: 10_000 }, (_, i) => ({ type: `image/png; name=${i}.png`, body: "x" })),
      ),
  ],
  ["depth 10,000", () => nested(10_000)],
  ["depth 60", () => nested(60)],
  ["carried mails in carried mails", () => carried(2000)],
  ["50,000 header fields", () => mail(Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`H${i}`, "x"])))],
  ["one header of 1 MB", () => mail({ Subject: "x".repeat(1_000_000) })],
  ["100,000 folds", () => mail({ Subject: `x${"\r\n y".repeat(100_000)}` })],
  [
    "50,000 addresses",
    () =>
      mail({
        To: Array.from({ length: 50_000 }, (_, i) => `u${i}@x.example`)
          .join(",")
          .slice(0, 900_000),
      }),
  ],
  ["open quotes in addresses", () => mail({ To: '"'.repeat(100_001) })],
  ["open brackets in addresses", () => mail({ From: "<".repeat(100_000) })],
  ["open comments in addresses", () => mail({ To: "(".repeat(100_000) })],
  ["open groups", () => mail({ To: "a:".repeat(50_000) })],
  ["encoded words", () => mail({ Subject: "=?utf-8?q?x?= ".repeat(20_000) })],
  ["broken encoded words", () => mail({ Subject: "=?".repeat(100_000) })],
  ["100,000 references", () => mail({ References: "<a@b> ".repeat(100_000) })],
  ["broken references", () => mail({ References: "<".repeat(500_000) })],
  ["missing boundary", () => mail({ "Content-Type": "multipart/mixed" }, "--x\n")],
  ["empty boundary", () => mail({ "Content-Type": 'multipart/mixed; boundary=""' }, "--\n--\n")],
  [
    "boundary of 10,000",
    () => mail({ "Content-Type": `multipart/mixed; boundary="${"b".repeat(10_000)}"` }, `--${"b".repeat(10_000)}\n\nx`),
  ],
  ["parameters without end", () => mail({ "Content-Type": `text/plain; ${"a*0*=x;".repeat(20_000)}` })],
  ["two Content-Types", () => mail({ "Content-Type": ["text/plain", "text/html"] }, "<b>x</b>")],
  ["broken base64", () => mail({ "Content-Transfer-Encoding": "base64" }, "=!$".repeat(100_000))],
  ["broken quoted-printable", () => mail({ "Content-Transfer-Encoding": "quoted-printable" }, "=".repeat(500_000))],
  ["2 MB format=flowed", () => mail({ "Content-Type": "text/plain; format=flowed" }, "word \n".repeat(350_000))],
  ["200,000 underscores", () => mail({}, "_".repeat(200_000))],
  ["schrieb<Am", () => mail({}, "schrieb<Am ".repeat(4000))],
  ["16,000 line ends", () => mail({}, "\n".repeat(16_000))],
  ["1,000,000 line ends", () => mail({}, `x${"\n".repeat(1_000_000)}x`)],
  ["forward of line ends", () => mail({ Subject: "Fwd: x" }, `-- Forwarded message --\n${"\n".repeat(16_000)}`)],
  ["forward of dashes", () => mail({ Subject: "Fwd: x" }, "-".repeat(20_000))],
  ["forward of From lines", () => mail({ Subject: "WG: x" }, "From: a\n".repeat(5000))],
  ["forward of stars", () => mail({ Subject: "TR: x" }, `*From:* ${"<a@b> ".repeat(3000)}`)],
  ["100,000 nested div", () => html("<div>".repeat(100_000))],
  ["100,000 attributes", () => html(`<a ${"x=1 ".repeat(100_000)}>x</a>`)],
  ["styles", () => html(`<p style="${"a:b;".repeat(100_000)}">x</p>`)],
  ["style comments", () => html(`<p style="${"/*".repeat(100_000)}">x</p>`)],
  ["open tags", () => html("<".repeat(500_000))],
  ["open comments", () => html("<!--".repeat(200_000))],
  ["entities", () => html("&amp;".repeat(300_000))],
  ["quote containers", () => html("<div class=gmail_quote>x".repeat(50_000))],
  ["reply headers", () => html("<div id=divRplyFwdMsg>x</div>".repeat(50_000))],
  ["tables", () => html("<table><tr><td>".repeat(30_000))],
  [
    "reports",
    () =>
      multipart("report", [
        { type: "message/delivery-status", body: "Final-Recipient: rfc822;a@b\n\n".repeat(50_000) },
      ]),
  ],
  [
    "report of folds",
    () => multipart("report", [{ type: "message/delivery-status", body: `Status: 5\n${" x\n".repeat(100_000)}` }]),
  ],
  ["winmail.dat", () => mail({ "Content-Type": "application/ms-tnef; name=winmail.dat" }, "\u0000x")],
  [
    "S/MIME",
    () => mail({ "Content-Type": "application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m" }, "MII"),
  ],
  [
    "only an attachment",
    () => mail({ "Content-Type": "application/pdf; name=a.pdf", "Content-Disposition": "attachment" }, "%PDF"),
  ],
  ["lone surrogates", () => mail({ Subject: "\ud800x", "Content-Type": "text/html" }, "&#xD800;\ud800")],
  [
    "8-bit everywhere",
    () => Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i % 97 === 0 ? 10 : 128 + (i % 128)))),
  ],
  ["markers", () => mail({}, "[ref:bh-".repeat(100_000))],
];

describe("hostile mail", () => {
  it.each(hostile)("%s ends in time, and the next mail parses", async (_, make) => {
    const raw = make();
    const start = workedMs();
    const result = await parser.parse(raw, off);
    expect(workedMs() - start).toBeLessThan(10_000);
    if (!result.ok) expect(result.code).toBe("malformed");
    const next = await parser.parse(mail(), off);
    expect(next.ok && next.mail.text).toBe("Where is my parcel?");
  });
});

describe("any mail", () => {
  const names = [
    "From",
    "To",
    "Subject",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Date",
    "Message-ID",
    "References",
    "Return-Path",
    "Content-Disposition",
    "__proto__",
    "X",
  ];
  const pieces = fc.constantFrom(
    "multipart/mixed; boundary=b",
    "multipart/alternative; boundary=b",
    "text/html",
    "text/plain; charset=",
    "message/rfc822",
    "base64",
    "quoted-printable",
    "<a@b>",
    "=?utf-8?q?=C3?=",
    "--b",
    "--b--",
    "\r\n",
    "\n\n",
    ">",
    "<div>",
    "</p>",
    "\u202e",
    "\u0000",
    '"',
    "(",
    ";",
    "On 2024 a@b wrote:",
    "From: a@b",
    "-- ",
    "Fwd: ",
  );
  const text = fc
    .array(fc.oneof(pieces, fc.string({ unit: "binary", maxLength: 12 })), { maxLength: 12 })
    .map((all) => all.join(""));
  it("never makes the parser throw", async () => {
    const any = fc.record({
      fields: fc.array(fc.tuple(fc.constantFrom(...names), text), { maxLength: 8 }),
      body: text,
    });
    await fc.assert(
      fc.asyncProperty(any, async ({ fields, body }) => {
        const raw = Buffer.from(`${fields.map(([name, value]) => `${name}: ${value}`).join("\r\n")}\r\n\r\n${body}`);
        const result = await parser.parse(raw, off);
        if (!result.ok) return result.code === "malformed";
        const { mail: one } = result;
        return (
          one.text.isWellFormed() &&
          one.subject.isWellFormed() &&
          !/[\u0000\u202e]/.test(one.text + one.subject) &&
          (one.fullText === "" || one.text !== "")
        );
      }),
      { numRuns: 1500 },
    );
  });
  it("takes any bytes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), async (raw) => {
        const result = await parser.parse(raw, off);
        return result.ok || result.code === "malformed";
      }),
      { numRuns: 1000 },
    );
  });
  it("gives back what was written", async () => {
    const word = fc.stringMatching(/^[A-Za-z0-9äöüß日本語é]{1,12}$/);
    const line = fc.array(word, { minLength: 1, maxLength: 6 }).map((words) => words.join(" "));
    await fc.assert(
      fc.asyncProperty(
        line,
        fc.array(line, { minLength: 1, maxLength: 8 }),
        fc.uint8Array({ maxLength: 60, minLength: 1 }),
        async (subject, lines, file) => {
          const body = parts([
            { type: "text/plain; charset=utf-8", body: lines.join("\n") },
            { type: "application/x-thing; name=a.bin", body: file },
          ]);
          const raw = mail(
            {
              Subject: `=?utf-8?B?${Buffer.from(subject).toString("base64")}?=`,
              "Content-Type": 'multipart/mixed; boundary="bound"',
            },
            body,
          );
          const result = await parser.parse(raw, off);
          expect(result).toMatchObject({ ok: true, mail: { subject, fullText: lines.join("\n") } });
          expect(result.ok && Buffer.from(result.mail.attachments[0]?.bytes ?? [])).toEqual(Buffer.from(file));
        },
      ),
      { numRuns: 300 },
    );
  });
});
