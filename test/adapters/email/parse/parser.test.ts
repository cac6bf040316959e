import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import type { ParseContext } from "../../../../adapters/email/parse/mail.ts";
import { Parser, sharedParser } from "../../../../adapters/email/parse/parser.ts";
import { standardTiming as timing } from "../../../../adapters/email/timing.ts";
import { systemClock } from "../../../../src/ops/clock.ts";
import { sleepersOn, workedMs } from "../../../support/clock.ts";
import { answering, html, mail, multipart, reader } from "../../../support/email/mails.ts";
import { root } from "../../../support/machine/command.ts";
import { newFolder } from "../../../support/resources.ts";

const off: ParseContext = { senderAuth: { mode: "off" } };
const { parser, read } = reader();
afterAll(() => parser.close());

/** Takes a parser some seconds. */
/** Time that passes when a test says so. */
function stillClock() {
  let passed = 0;
  const sleepers = sleepersOn(() => passed);
  const forward = (ms: number) => {
    passed += ms;
    sleepers.rouse();
  };
  return { now: () => passed, monotonic: () => passed, sleep: sleepers.sleep, forward };
}

const slow = () =>
  multipart(
    "mixed",
    Array.from({ length: 12 }, () => ({ type: "text/html", body: "<p>word <b>x</b> ".repeat(60_000) })),
  );

describe("fields", () => {
  it("reads people, ids, dates and where a mail was delivered", async () => {
    const read1 = await read(
      mail({
        From: "=?iso-8859-1?Q?J=FCrgen?= <J@Example.ORG>",
        "Reply-To": '"Doe, A" <a@example.org>, b@example.org',
        Cc: "Team: c@example.org, d@example.org;",
        "In-Reply-To": "<1@x> (a comment)",
        References: "<0@x>\r\n <1@x> junk <0@x>",
        "Delivered-To": ["support@example.com", "Box@example.com"],
        "X-Original-To": "<hilfe@example.de>",
      }),
    );
    expect(read1).toMatchObject({
      messageId: "<m1@example.org>",
      inReplyTo: ["<1@x>"],
      references: ["<0@x>", "<1@x>"],
      from: [{ address: "j@example.org", name: "Jürgen" }],
      fromFields: 1,
      replyTo: [
        { address: "a@example.org", name: "Doe, A" },
        { address: "b@example.org", name: "" },
      ],
      cc: [{ address: "c@example.org" }, { address: "d@example.org" }],
      deliveredTo: ["support@example.com", "box@example.com", "hilfe@example.de"],
      returnPath: "anna@example.org",
      date: Date.UTC(2024, 4, 3, 10),
      report: null,
      forwardedFrom: null,
    });
    expect(read1.headers.find((header) => header.name === "references")?.value).toBe("<0@x> <1@x> junk <0@x>");
  });
  it.each([
    ["anna@example.org (Anna (Sales))", "anna@example.org", "Anna Sales"],
    ["Anna (Sales (EU)) <anna@example.org>", "anna@example.org", "Anna"],
    ['"Anna (Sales (EU)) \\"A\\"" <anna@example.org>', "anna@example.org", 'Anna (Sales (EU)) "A"'],
    ["=?utf-8?Q?M=C3=BCller,_J=C3=BCrgen?= <j@example.org>", "j@example.org", "Müller, Jürgen"],
    ['"=?utf-8?Q?M=C3=BCller,_J?=" <j@example.org>', "j@example.org", "Müller, J"],
    ["=?utf-8?Q?Sales:_a@evil.example;?= <j@example.org>", "j@example.org", "Sales: a@evil.example;"],
    ["=?utf-8?Q?M=C3=BCller,?= =?utf-8?Q?_J?= <j@example.org>", "j@example.org", "Müller, J"],
    ["=?iso-8859-1?Q?J=C3=BCrgen?= <j@example.org>", "j@example.org", "Jürgen"],
    ["=?x-unknown?B?SsO8cmdlbg==?= <j@example.org>", "j@example.org", "Jürgen"],
    ["=?utf-7?Q?J+APw-rgen?= =?iso-8859-15*de?Q?_M=FC?= <j@example.org>", "j@example.org", "Jürgen Mü"],
    ["=?gb2312?B?xOM=?= =?utf-8?Q?=C3?= =?utf-8?Q?=BC?= <j@example.org>", "j@example.org", "你ü"],
    ["<mailto:anna@example.org>", "anna@example.org", ""],
    ["Anna <anna@example.org.>", "anna@example.org", "Anna"],
  ])("reads the address %s", async (From, address, name) => {
    expect((await read(mail({ From }))).from).toEqual([{ address, name }]);
  });
  it("reads cited ids without angle brackets", async () => {
    const cited = async (value: string) => {
      const { inReplyTo, references } = await read(mail({ "In-Reply-To": value, References: value }));
      expect(references).toEqual(inReplyTo);
      return inReplyTo;
    };
    expect(await cited("abcd.bridgehead@example.com")).toEqual(["<abcd.bridgehead@example.com>"]);
    expect(await cited("0@x, 1@x\r\n 0@x (a comment)")).toEqual(["<0@x>", "<1@x>"]);
    expect(await cited("anna@example.org wrote <1@x>")).toEqual(["<1@x>"]);
    expect(await cited("Your message of Friday")).toEqual([]);
    const many = Array.from({ length: 20_000 }, (_, i) => `${i}@example.org`);
    const { references } = await read(mail({ References: many.join("\r\n ") }));
    expect(references).toEqual(many.slice(-100).map((id) => `<${id}>`));
  });
  it.each([
    ["< a b@x >", "<ab@x>"],
    ["<long\r\n part@x> (a comment)", "<longpart@x>"],
    ["1@x", "<1@x>"],
  ])("reads the id %j without what is no part of it", async (value, id) => {
    const found = await read(mail({ "Message-ID": value, "In-Reply-To": value, References: `<0@x> ${value}` }));
    expect(found.messageId).toBe(id);
    if (value.includes("<")) expect(found).toMatchObject({ inReplyTo: [id], references: ["<0@x>", id] });
  });
  it("reads the newest of very many references", async () => {
    const ids = Array.from({ length: 20_000 }, (_, i) => `<${i}@example.org>`);
    const { references } = await read(mail({ References: ids.join("\r\n ") }));
    expect(references).toEqual(ids.slice(-100));
  });
  it("says null for what is missing or broken", async () => {
    const bare = await read(mail({ "Message-ID": "no brackets", Date: "yesterday", "Return-Path": "<>", To: null }));
    expect(bare).toMatchObject({
      messageId: null,
      date: null,
      returnPath: "",
      to: [],
      inReplyTo: [],
      references: [],
    });
  });
  it("reads header fields with the names of an object's own", async () => {
    const { headers } = await read(mail({ __proto__x: "1", constructor: "2", hasOwnProperty: "3" }));
    expect(headers.filter((header) => ["constructor", "hasownproperty"].includes(header.name))).toHaveLength(2);
  });
  it("finds our marker in text and in HTML, hidden or not", async () => {
    expect((await read(mail({}, "x\n> [ref:bh-abcdefgh12]\n"))).markers).toEqual(["abcdefgh12"]);
    expect((await read(html('<p>x</p><div style="display:none">[ref:bh-abcdefgh34]</div>'))).markers).toEqual([
      "abcdefgh34",
    ]);
  });
});

const japanese = Buffer.from("1b2442467c4b5c386c1b2842", "hex");
const charsets: readonly [string, string | null, Uint8Array, string][] = [
  ["ISO-2022-JP without a charset", null, japanese, "日本語"],
  ["ISO-2022-JP declared as UTF-8", "utf-8", japanese, "日本語"],
  ["ISO-2022-JP", "iso-2022-jp", japanese, "日本語"],
  ["UTF-8 declared as ISO-2022-JP", "iso-2022-jp", Buffer.from("日本語"), "日本語"],
  ["UTF-8 declared as Latin 1", "iso-8859-1", Buffer.from("Grüße"), "Grüße"],
  ["UTF-8 without a charset", null, Buffer.from("Grüße"), "Grüße"],
  ["Latin 1 without a charset", null, Buffer.from("Grüße", "latin1"), "Grüße"],
  ["Latin 1 declared as UTF-8", "utf-8", Buffer.from("Grüße", "latin1"), "Grüße"],
  ["Latin 1 declared as ASCII", "us-ascii", Buffer.from("Grüße", "latin1"), "Grüße"],
  ["windows-1252", "windows-1252", Buffer.from([0x80, 0x20, 0x93, 0x78, 0x94]), "€ “x”"],
  ["KOI8-R", "koi8-r", Buffer.from([0xf0, 0xd2, 0xc9]), "При"],
  ["windows-1251", "cp1251", Buffer.from([0xcf, 0xf0, 0xe8]), "При"],
  ["GB18030", "gb18030", Buffer.from([0xc4, 0xe3, 0xba, 0xc3]), "你好"],
  ["GBK that looks like UTF-8", "gbk", Buffer.from([0xc1, 0xaa, 0xcd, 0xa8]), "联通"],
  ["Shift_JIS", "shift_jis", Buffer.from([0x93, 0xfa, 0x96, 0x7b]), "日本"],
  ["Shift_JIS under its other name", "cp932", Buffer.from([0x93, 0xfa, 0x96, 0x7b]), "日本"],
  ["EUC-KR", "ks_c_5601-1987", Buffer.from([0xc7, 0xd1]), "한"],
  ["UTF-16", "utf-16le", Buffer.from("Hallo", "utf16le"), "Hallo"],
  ["UTF-16 of unknown byte order", "utf-16", Buffer.from("Hallo", "utf16le").swap16(), "Hallo"],
  ["UTF-16 of unknown byte order in Chinese", "UTF-16", Buffer.from("一二三\n", "utf16le").swap16(), "一二三"],
  ["UTF-16 in the wrong byte order", "utf-16", Buffer.from("Hallo", "utf16le"), "Hallo"],
  ["UTF-16 with a mark, little-endian", "utf-16", Buffer.from("\ufeff你好", "utf16le"), "你好"],
  ["UTF-16 with a mark, big-endian", "utf-16", Buffer.from("\ufeff你好", "utf16le").swap16(), "你好"],
  ["an unknown name", "x-unknown", Buffer.from("Grüße"), "Grüße"],
  ["UTF-7", "utf-7", Buffer.from("Gr+APwA3w-e +2D3eAA- 1 +- 1"), "Grüße \u{1f600} 1 + 1"],
  ["UTF-7 under its old name", "unicode-1-1-utf-7", Buffer.from("Gr+APw-n"), "Grün"],
  ["ISO-2022-KR", "iso-2022-kr", Buffer.from("\x1b$)C\n\x0e>H3g\x0f!"), "안녕!"],
  ["ISO-2022-KR without a charset", null, Buffer.from("\x1b$)C\x0e>H3g\n!"), "안녕\n!"],
  ["HZ", "hz-gb-2312", Buffer.from("~{Dc:C~} ~~ 1~\n2"), "你好 ~ 12"],
  ["KOI8-U", "koi8-u", Buffer.from([0xf0, 0xd2, 0xc9, 0xd7, 0xa6, 0xd4]), "Привіт"],
  ["Thai", "windows-874", Buffer.from([0xca, 0xc7, 0xd1, 0xca, 0xb4, 0xd5]), "สวัสดี"],
  ["Thai under its other names", "cp874", Buffer.from([0xca, 0xc7, 0xd1, 0xca, 0xb4, 0xd5]), "สวัสดี"],
  ["Shift_JIS with characters of NEC and IBM", "ms932", Buffer.from([0x87, 0x40, 0xfb, 0xfc]), "①髙"],
  ["Shift_JIS declared as ISO-2022-JP", "iso-2022-jp", Buffer.from([0x93, 0xfa, 0x96, 0x7b]), "日本"],
  ["a code page that is UTF-8", "cp65001", Buffer.from("Grüße"), "Grüße"],
  ["Korean of Windows", "euc-kr", Buffer.from([0x8c, 0x63, 0xb9, 0xe6]), "똠방"],
  ["Chinese of Hong Kong", "big5-hkscs", Buffer.from([0x9d, 0xee, 0xa4, 0xa4]), "㗎中"],
  ["a code page of DOS", "ibm850", Buffer.from([0x47, 0x72, 0x81, 0xe1, 0x65]), "Grüße"],
  ["UTF-32", "utf-32le", Buffer.from([0x60, 0x4f, 0, 0, 0x41, 0, 0, 0]), "你A"],
  ["a charset in quotes", "\"'iso-8859-2'\"", Buffer.from([0xb1, 0xea]), "ąę"],
  ["UTF-8 declared as KOI8-R", "koi8-r", Buffer.from("Привет"), "Привет"],
  ["UTF-8 declared by cron", "ANSI_X3.4-1968", Buffer.from("Grüße"), "Grüße"],
  ["UTF-8 declared as GB2312", "gb2312", Buffer.from("你好吗."), "你好吗."],
  ["UTF-8 declared as Big5", "big5", Buffer.from("Grüße, 你好"), "Grüße, 你好"],
  ["UTF-8 declared as UTF-16", "utf-16", Buffer.from("Grüße"), "Grüße"],
  ["ASCII declared as UTF-16", "utf-16", Buffer.from("Hello"), "Hello"],
];

describe("charsets", () => {
  it.each(charsets)("%s", async (_, charset, bytes, expected) => {
    const type = charset === null ? "text/plain" : `text/plain; charset=${charset}`;
    const raw = mail(
      { "Content-Type": type, "Content-Transfer-Encoding": "base64" },
      bytes.toString().length > 0 ? Buffer.from(bytes).toString("base64") : "",
    );
    expect((await read(raw)).text).toBe(expected);
  });
  it("repairs raw bytes in headers", async () => {
    const bytes = (text: string, encoding: BufferEncoding) =>
      Buffer.from(
        Buffer.from(mail({ Subject: "SUBJECT", "Content-Type": "text/plain; charset=iso-8859-1" }))
          .toString("latin1")
          .replace("SUBJECT", text),
        encoding,
      );
    expect((await read(bytes("Grüße", "latin1"))).subject).toBe("Grüße");
    expect((await read(Buffer.from(mail({ Subject: "Grüße" })))).subject).toBe("Grüße");
    expect((await read(bytes(japanese.toString("latin1"), "latin1"))).subject).toBe("日本語");
  });
  const chunks = ["CAUTION: external mail\n", "Please cancel my order\n", "Its number is 4711. Grüße!"];
  const encoded = chunks.map((chunk) => Buffer.from(chunk).toString("base64"));
  it.each([
    ["on lines of their own", encoded.join("\r\n")],
    ["in one line", encoded.join("")],
    ["without the last padding", encoded.join("\r\n").replace(/=+$/, "")],
    ["among other characters", `=${encoded.join("=\r\n! ")}==`],
  ])("reads base64 that is encoded in pieces, %s", async (_, body) => {
    expect(encoded.filter((piece) => piece.endsWith("=")).length).toBeGreaterThan(1);
    const base64 = { "Content-Transfer-Encoding": "base64" };
    expect((await read(mail(base64, body))).text).toBe(chunks.join(""));
    const specs = [{ type: "application/pdf; name=a.pdf", body, fields: base64 }];
    const [file] = (await read(multipart("mixed", specs))).attachments;
    expect(Buffer.from(file?.bytes ?? []).toString()).toBe(chunks.join(""));
  });
  it("joins format=flowed lines", async () => {
    const raw = mail({ "Content-Type": "text/plain; format=flowed" }, "a long \nline\nnext\n");
    expect((await read(raw)).text).toBe("a long line\nnext");
  });
});

describe("PGP signatures in the text", () => {
  const [begin, signature] = ["-----BEGIN PGP SIGNED MESSAGE-----", "-----BEGIN PGP SIGNATURE-----"];
  const end = "-----END PGP SIGNATURE-----";
  const signed = (text: string) => `${begin}\nHash: SHA512\n\n${text}\n${signature}\n\niQIz\n=abcd\n${end}\n`;
  it.each([
    ["the text and escaped dashes", signed("Hello,\n\n- - one\n- - two"), "Hello,\n\n- one\n- two"],
    ["a signature", signed("It works.\n- -- \nAnna"), "It works."],
    ["text around it", `Above\n\n${signed("Hello")}\nBelow`, "Above\n\nHello\n\nBelow"],
    ["two of them", `${signed("One")}${signed("Two")}`, "One\nTwo"],
    ["no headers", signed("Hello").replace("Hash: SHA512\n\n", ""), "Hello"],
    ["none that is complete", signed("Hello").replace(end, ""), signed("Hello").replace(end, "").trim()],
  ])("reads %s", async (_, body, expected) => expect((await read(mail({}, body))).text).toBe(expected));
});

describe("attachments", () => {
  const names: readonly [string, string][] = [
    ["../../etc/passwd", "etc_passwd"],
    ["C:\\Users\\a.txt", "C_Users_a.txt"],
    ["/etc/shadow", "etc_shadow"],
    ["a\u202egpj.exe", "agpj.exe"],
    ["a\u0000b.txt", "ab.txt"],
    ["....", "attachment-1.pdf"],
    [`${"x".repeat(5000)}.pdf`, `${"x".repeat(196)}.pdf`],
    ["a\r\nb.pdf", "a b.pdf"],
    ["über.pdf", "über.pdf"],
  ];
  it.each(names)("names are data: %j", async (name, expected) => {
    const encoded = encodeURIComponent(name);
    const raw = multipart("mixed", [
      { type: "text/plain", body: "see" },
      {
        type: "application/pdf",
        body: Buffer.from("%PDF"),
        fields: { "Content-Disposition": `attachment; filename*=utf-8''${encoded}` },
      },
    ]);
    const [file] = (await read(raw)).attachments;
    expect(file?.name).toBe(expected);
    expect(Buffer.from(file?.bytes ?? []).toString()).toBe("%PDF");
  });
  it("distinguishes images in the text from files, and keeps winmail.dat and carried mails", async () => {
    const raw = multipart("mixed", [
      {
        type: 'multipart/related; boundary="r"',
        body: '--r\nContent-Type: text/html\n\n<p>hi<img src="cid:i"></p>\n--r\nContent-Type: image/png\nContent-ID: <i>\nContent-Transfer-Encoding: base64\n\niVBORw==\n--r--\n',
      },
      { type: "application/ms-tnef; name=winmail.dat", body: Buffer.from("tnef") },
      {
        type: "message/rfc822",
        body: "From: Bob <bob@example.net>\nSubject: Broken mug\n\nmy mug is broken",
        fields: { "Content-Disposition": "inline" },
      },
    ]);
    const parsed = await read(raw);
    expect(parsed.attachments.map(({ name, mediaType, inline }) => [name, mediaType, inline])).toEqual([
      ["image-1.png", "image/png", true],
      ["winmail.dat", "application/ms-tnef", false],
      ["message.eml", "message/rfc822", false],
    ]);
    expect(parsed.text).toContain("my mug is broken");
    expect(parsed.forwardedFrom).toEqual({ address: "bob@example.net", name: "Bob" });
  });
  it("reads the attached message of a forward, and only of a forward", async () => {
    const raw = (subject: string, type = "message/rfc822") =>
      multipart(
        "mixed",
        [
          { type: "text/plain", body: "Please look." },
          {
            type: `${type}; name=mail.eml`,
            body: "From: Bob <bob@example.net>\nSubject: Broken mug\n\nmy mug is broken",
            fields: { "Content-Disposition": "attachment; filename=mail.eml" },
          },
        ],
        { Subject: subject },
      );
    const forward = await read(raw("Fwd: Broken mug"));
    expect(forward.text).toMatch(/^Please look\.[^]*Broken mug[^]*my mug is broken$/);
    expect(forward).toMatchObject({
      forwardedFrom: { address: "bob@example.net" },
      attachments: [{ name: "mail.eml" }],
    });
    expect(await read(raw("A file"))).toMatchObject({ text: "Please look.", forwardedFrom: null });
    const saved = await read(raw("Fwd: Broken mug", "application/octet-stream"));
    expect([saved.text, saved.attachments[0]?.name]).toEqual([forward.text, "mail.eml"]);
  });
  it("reads the text below files, of which Exchange makes attachments", async () => {
    const named = (name: string) => ({ "Content-Disposition": `attachment; filename="${name}"` });
    const picture = { type: "image/jpeg; name=IMG_1.jpeg", body: Buffer.from("jpeg"), fields: named("IMG_1.jpeg") };
    const parsed = await read(
      multipart("mixed", [
        { type: "text/html; charset=utf-8", body: "<html><body><br></body></html>" },
        picture,
        { type: 'text/html; name="ATT00001.htm"', body: "<p>The lamp is broken.</p>", fields: named("ATT00001.htm") },
        picture,
        { type: 'text/plain; name="ATT00002.txt"', body: "What now?", fields: named("ATT00002.txt") },
        { type: "text/plain; name=log.txt", body: "line 1", fields: named("log.txt") },
      ]),
    );
    expect(parsed.text).toBe("The lamp is broken.\n\nWhat now?");
    expect(parsed.attachments.map(({ name }) => name)).toEqual(["IMG_1.jpeg", "IMG_1.jpeg", "log.txt"]);
  });
  it("does not list the forms of the text that only some programs show", async () => {
    const parsed = await read(
      multipart("alternative", [
        { type: "text/plain", body: "Yes" },
        { type: "text/x-amp-html", body: "<html amp4email>Yes</html>" },
        { type: "text/vnd.google.email-reaction+json", body: '{"version":1,"emoji":"x"}' },
        { type: "text/calendar", body: "BEGIN:VCALENDAR\nEND:VCALENDAR" },
        { type: "text/csv; name=list.csv", body: "1,2" },
        { type: "text/html", body: "<p>Yes</p>" },
      ]),
    );
    expect([parsed.text, ...parsed.attachments.map(({ name }) => name)]).toEqual(["Yes", "invitation.ics", "list.csv"]);
  });
});

it("reads Gmail's reaction in the form of a text message, in any language", async () => {
  const words = "👍\n\nAnna hat über Gmail reagiert\n<https://www.google.com/gmail/about/>";
  const parts = [
    { type: "text/plain; charset=utf-8", body: words },
    { type: "text/vnd.google.email-reaction+json; charset=utf-8", body: '{"emoji":"👍","version":1}' },
    { type: "text/html; charset=utf-8", body: "<p>👍</p><p>Anna hat über Gmail reagiert</p>" },
  ];
  expect(await read(multipart("alternative", parts, answering))).toMatchObject({
    text: "👍 to “Re: My parcel”",
    attachments: [],
  });
});

it("reads a body whose type is none, and Markdown, as text; a named one is a file", async () => {
  for (const type of ["text", "text/markdown; charset=utf-8"])
    expect(await read(mail({ "Content-Type": type })), type).toMatchObject({
      text: "Where is my parcel?",
      attachments: [],
    });
  expect((await read(mail({ "Content-Type": "text; name=a.pdf" }))).attachments).toHaveLength(1);
  expect((await read(mail({ "Content-Type": "text/markdown; name=a.md" }))).attachments).toHaveLength(1);
});

describe("forwards in text", () => {
  const forwards: readonly [string, string][] = [
    [
      "Fwd: Broken",
      "please look\n\n---------- Forwarded message ---------\nFrom: Bob <bob@example.net>\nDate: Fri, May 3, 2024 at 10:00 AM\nSubject: Broken\nTo: <anna@example.org>\n\nmy mug is broken",
    ],
    [
      "WG: Kaputt",
      "Bitte ansehen\n\nVon: Bob <bob@example.net>\nGesendet: Freitag, 3. Mai 2024 10:00\nAn: Anna\nBetreff: Kaputt\n\nmy mug is broken",
    ],
    [
      "Fwd: Broken",
      "Begin forwarded message:\n\nFrom: Bob <bob@example.net>\nSubject: Broken\nDate: May 3, 2024 at 10:00:00 AM GMT+2\nTo: anna@example.org\n\nmy mug is broken",
    ],
    [
      "TR: Cassé",
      "-----Message d'origine-----\nDe : Bob <bob@example.net>\nEnvoyé : vendredi 3 mai 2024 10:00\nÀ : Anna\nObjet : Cassé\n\nmy mug is broken",
    ],
  ];
  it.each(forwards)("%s", async (subject, body) => {
    const parsed = await read(mail({ Subject: `=?utf-8?B?${Buffer.from(subject).toString("base64")}?=` }, body));
    expect(parsed.forwardedFrom?.address).toBe("bob@example.net");
    expect(parsed.text).toContain("my mug is broken");
  });
  it("a reply to a forward is not a forward", async () => {
    expect((await read(mail({ Subject: "Re: Fwd: Broken" }, "ok"))).forwardedFrom).toBeNull();
  });
});

describe("the worker", () => {
  it("rejects a mail that exceeds the time limit, and parses the others", async () => {
    const clock = stillClock();
    const strict = new Parser({ clock, timing: { ...timing, parse: 700 } });
    try {
      const [first, second, third] = [mail(), slow(), mail({ Subject: "third" })].map((raw) => strict.parse(raw, off));
      expect((await first)?.ok).toBe(true);
      // First parsed in parallel with the third one, then alone: its timeout elapses twice, and never during the third
      // one.
      const over = new AbortController();
      void second?.then(() => over.abort());
      for (; !over.signal.aborted; await new Promise((resolve) => setImmediate(resolve))) clock.forward(100);
      expect(await second).toMatchObject({ ok: false, code: "too-slow" });
      expect((await third)?.ok).toBe(true);
      expect((await strict.parse(mail(), off)).ok).toBe(true);
    } finally {
      await strict.close();
    }
  });
  it("does not count the time in which its own thread was busy", async () => {
    const clock = stillClock();
    const own = new Parser({ clock, timing });
    try {
      const pending = own.parse(mail(), off);
      clock.forward(600_000);
      expect(await pending).toMatchObject({ ok: true });
    } finally {
      await own.close();
    }
  });
  it("survives a mail that needs too much memory", async () => {
    const small = new Parser({ clock: systemClock, maxHeapMb: 24, timing: { ...timing, parse: 20_000 } });
    try {
      const bomb = mail({ "Content-Type": "multipart/mixed; boundary=b" }, "--b\n\nx\n".repeat(100_000));
      const results = await Promise.all([mail(), bomb, mail()].map((raw) => small.parse(raw, off)));
      expect(results.map((result) => (result.ok ? "ok" : result.code))).toEqual(["ok", "too-big-in-memory", "ok"]);
    } finally {
      await small.close();
    }
  });
  it("judges no mail when it does not start, as during the installation of another version", async () => {
    const folder = newFolder();
    const file = "adapters/email/parse/parser.ts";
    copyFileSync(join(root, file), join(folder, "parser.ts"));
    // The file of its worker is not there.
    const module = (await import(pathToFileURL(join(folder, "parser.ts")).href)) as { Parser: typeof Parser };
    const own = new module.Parser({ clock: systemClock, timing });
    const reading = [1, 2].map(() => own.parse(mail(), off));
    const error = { message: expect.stringContaining("the mail parser does not start: "), parserFailed: true };
    for (const each of reading) await expect(each).rejects.toMatchObject(error);
    await expect(own.parse(mail(), off)).rejects.toMatchObject(error);
    await own.close();
  });
  it("leaves the caller's bytes alone", async () => {
    const raw = mail();
    const before = Buffer.from(raw).toString("hex");
    await parser.parse(raw, off);
    expect(Buffer.from(raw).toString("hex")).toBe(before);
  });
  it("rejects on abort and after close", async () => {
    const own = new Parser({ clock: systemClock, timing });
    const stop = new AbortController();
    const pending = own.parse(slow(), off, stop.signal);
    stop.abort(new Error("stopped"));
    await expect(pending).rejects.toThrow("stopped");
    await expect(own.parse(mail(), off, stop.signal)).rejects.toThrow("stopped");
    const unfinished = own.parse(slow(), off);
    const told = expect(unfinished).rejects.toThrow("closed");
    await own.close();
    await told;
    await expect(own.parse(mail(), off)).rejects.toThrow("closed");
  });
  it("ends when idle and comes back", async () => {
    const clock = stillClock();
    const lazy = new Parser({ clock, timing: { ...timing, parserIdle: 20 } });
    const threads = () => process.report.getReport() as unknown as { workers: unknown[] };
    const before = threads().workers.length;
    expect((await lazy.parse(mail(), off)).ok).toBe(true);
    expect(threads().workers.length).toBe(before + 1);
    clock.forward(60_000);
    await expect.poll(() => threads().workers.length).toBeLessThanOrEqual(before);
    expect((await lazy.parse(mail(), off)).ok).toBe(true);
    await lazy.close();
  });
  it("is shared until the last one closes it", async () => {
    const [one, two] = [sharedParser({ clock: systemClock, timing }), sharedParser({ clock: systemClock, timing })];
    await one.close();
    await one.close();
    expect((await two.parse(mail(), off)).ok).toBe(true);
    await expect(one.parse(mail(), off)).rejects.toThrow("closed");
    await two.close();
    await expect(two.parse(mail(), off)).rejects.toThrow("closed");
  });
  it("parses small mails quickly, each with its own answer", async () => {
    await parser.parse(mail(), off);
    const start = workedMs();
    const subjects = await Promise.all(
      Array.from({ length: 2000 }, async (_, i) => (await read(mail({ Subject: `n${i}` }))).subject),
    );
    expect(subjects).toEqual(Array.from({ length: 2000 }, (_, i) => `n${i}`));
    // An idle machine parses 1500 a second; other tests run in parallel.
    expect(workedMs() - start).toBeLessThan(6000);
  });
});
