// The fingerprint: one for every copy of a message, another for every other message.

import { afterAll, describe, expect, it } from "vitest";
import { type Fields, html, mail, multipart, type PartSpec, parts, reader } from "../../../support/email/mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());
const digest = async (raw: Uint8Array) => (await read(raw)).digest;

const body = "Dear team,\n\nwhere is my parcel? It should have come on Monday.\n\n-- \nAnna\n+49 123\n";
const list: Fields = {
  "Return-Path": "<talk-bounces@lists.example>",
  Received: ["from lists.example by mail.example.com", "from mx.example.org by lists.example"],
  "Delivered-To": "talk@lists.example",
  From: '"Anna via Talk" <talk@lists.example>',
  Sender: "Talk <talk-bounces@lists.example>",
  "Reply-To": "Anna <anna@example.org>",
  To: "talk@lists.example",
  Subject: "[Talk] My parcel",
  "List-Id": "<talk.lists.example>",
  "X-Mailman-Version": "3.3.8",
  "ARC-Seal": "i=1",
};
const mailman =
  "_______________________________________________\nTalk mailing list -- talk@lists.example\nTo unsubscribe send an email to talk-leave@lists.example\n";
const google =
  '-- \nYou received this message because you are subscribed to the Google Groups "Talk" group.\nTo unsubscribe from this group and stop receiving emails from it, send an email to talk+unsubscribe@example.com.\n';
const groupsIo =
  "-=-=-=-=-=-=-=-=-=-=-=-\nGroups.io Links: You receive all messages sent to this group.\nUnsubscribe: https://groups.io/g/talk/unsub\n-=-=-=-=-=-=-=-=-=-=-=-\n";

describe("copies of one message have one fingerprint", () => {
  const base64 = { "Content-Transfer-Encoding": "base64" };
  const encode = (text: string) => `${Buffer.from(text).toString("base64").replace(/.{76}/g, "$&\n")}\n`;
  const copies: readonly [string, Uint8Array][] = [
    ["LF line ends", Buffer.from(Buffer.from(mail({}, body)).toString().replaceAll("\r\n", "\n"))],
    [
      "the alias",
      mail({ "Delivered-To": "help@example.com", "X-Original-To": "help@example.com", To: "help@example.com" }, body),
    ],
    ["a list without changes of the body", mail(list, body)],
    ["a Mailman footer", mail(list, `${body}${mailman}`)],
    ["a Google Groups footer", mail(list, `${body}\n${google}`)],
    ["a groups.io footer", mail(list, `${body}\n${groupsIo}`)],
    ["the footers of a list behind a list", mail(list, `${body}\n${mailman}\n${google}`)],
    [
      "a footer as a part of its own",
      multipart(
        "mixed",
        [
          { type: "text/plain; charset=utf-8", body },
          { type: "text/plain", body: mailman },
        ],
        list,
      ),
    ],
    ["base64", mail({ ...list, ...base64 }, encode(body))],
    ["base64 with the footer inside", mail({ ...list, ...base64 }, encode(body + mailman))],
    [
      "quoted-printable",
      mail({ ...list, "Content-Transfer-Encoding": "quoted-printable" }, body.replace("parcel?", "par=\ncel=3F")),
    ],
    [
      "UTF-16",
      mail(
        { ...list, ...base64, "Content-Type": "text/plain; charset=utf-16le" },
        `${Buffer.from(body, "utf16le").toString("base64")}\n`,
      ),
    ],
    ["other line breaks", mail(list, body.replace("parcel? It", "parcel?\nIt"))],
    ["a Date in another zone", mail({ ...list, Date: "Fri, 3 May 2024 12:00:00 +0200 (CEST)" }, body)],
  ];
  it.each(copies)("%s", async (_, copy) => {
    expect(await digest(copy)).toBe(await digest(mail({}, body)));
  });

  it("where the list removes the HTML part", async () => {
    const both = multipart("alternative", [
      { type: "text/plain", body },
      {
        type: "text/html",
        body: "<p>Dear <b>team</b>, <a href='https://x.example'>where</a> is my parcel?</p>",
      },
    ]);
    expect(await digest(mail(list, body))).toBe(await digest(both));
  });
  it("where a mail has only HTML", async () => {
    const text = "<p>Dear team,</p><p>where is my parcel?</p>";
    expect(await digest(html(`${text}<br>`, { ...list, "Content-Type": "text/html" }))).toBe(await digest(html(text)));
  });
});

/** A scanner's mail: one Message-ID, one Date and one text for all. */
const scan = (fields: Fields = {}, pdf = "one", more: readonly PartSpec[] = []) =>
  multipart(
    "mixed",
    [
      { type: "text/plain", body: "See attachment." },
      {
        type: "application/pdf; name=scan.pdf",
        body: Buffer.from(pdf),
        fields: { "Content-Disposition": "attachment; filename=scan.pdf" },
      },
      ...more,
    ],
    { "Message-ID": "<scan@printer>", Subject: "Re: Scan 1", ...fields },
  );

describe("copies of a message with files have one fingerprint", () => {
  const footer = { type: "text/plain", body: mailman };
  it.each([
    ["fetched twice", {}, []],
    ["through a list", { ...list, Subject: "[Talk] Re: Scan 1" }, []],
    ["through a list that keeps the prefix first", { ...list, Subject: "Re: [Talk] Scan 1" }, [footer]],
    ["through a list behind a list", { ...list, Subject: "[All] [Talk 17] Re: Scan 1" }, [footer]],
    ["with a prefix in another language", { ...list, Subject: "[Talk] AW: Scan 1" }, [footer]],
    ["with the subject in another encoding", { Subject: "=?utf-8?B?UmU6IFNjYW4gMQ==?=" }, []],
    ["with the subject in two lines", { Subject: "Re: Scan\r\n 1" }, []],
  ] as const)("%s", async (_, fields, more) => {
    for (const date of [null, "Fri, 3 May 2024 10:00:00 +0000"])
      expect(await digest(scan({ ...fields, Date: date }, "one", more))).toBe(await digest(scan({ Date: date })));
  });
  it("with other line ends in a text file", async () => {
    const csv = { type: "text/csv; name=a.csv", body: "a,b\n1,2\n" };
    const first = scan({}, "one", [csv]);
    const copy = Buffer.from(Buffer.from(first).toString().replaceAll("\r\n", "\n"));
    expect(await digest(copy)).toBe(await digest(first));
  });
  it("where the list removes the HTML with its pictures, or a signature", async () => {
    const inner = (kind: string, specs: readonly PartSpec[], name: string) => ({
      type: `multipart/${kind}; boundary=${name}`,
      body: parts(specs, name),
    });
    const text = { type: "text/plain", body };
    const picture = { type: "image/png; name=logo.png", body: Buffer.from("logo"), fields: { "Content-ID": "<l@x>" } };
    const page = { type: "text/html", body: "<p>Dear team</p><img src='cid:l@x'>" };
    const rich = multipart("related", [inner("alternative", [text, page], "alt"), picture]);
    const nested = multipart("alternative", [text, inner("related", [page, picture], "rel")]);
    const signed = multipart("signed", [text, { type: "application/pgp-signature; name=signature.asc", body: "x" }]);
    const plain = await digest(mail(list, body));
    for (const one of [rich, nested, signed]) expect(await digest(one)).toBe(plain);
  });
});

describe("different messages have different fingerprints", () => {
  it.each([
    ["the subject", scan({ Subject: "Re: Scan 2" })],
    ["a file", scan({}, "two")],
    ["one more file", scan({}, "one", [{ type: "image/png; name=a.png", body: Buffer.from("a") }])],
    ["one more text file", scan({}, "one", [{ type: "text/plain; name=a.txt", body: "a" }])],
  ])("two with one Message-ID and one text that differ in %s", async (_, other) => {
    expect(await digest(other)).not.toBe(await digest(scan()));
    const undated = Buffer.from(
      Buffer.from(other)
        .toString()
        .replace(/^Date: .*\r\n/m, ""),
    );
    expect(await digest(undated)).not.toBe(await digest(scan({ Date: null })));
  });
  it("two whose subjects are other tags", async () => {
    expect(await digest(scan({ Subject: "[Scan 1]" }))).not.toBe(await digest(scan({ Subject: "[Scan 2]" })));
  });
  it("two with one file in other structures", async () => {
    const pdf = (text: string) => ({ type: "application/pdf; name=a.pdf", body: Buffer.from(text) });
    for (const kind of ["mixed", "related"]) {
      const one = (text: string) => multipart(kind, [{ type: "text/html", body: "<p>x</p>" }, pdf(text)]);
      expect(await digest(one("a")), kind).not.toBe(await digest(one("b")));
    }
    const alone = (text: string) =>
      mail({ "Content-Type": "application/pdf", "Content-Transfer-Encoding": "base64" }, `${text}\n`);
    expect(await digest(alone("YQ=="))).not.toBe(await digest(alone("Yg==")));
  });
  it("two short ones that differ only in Date and Message-ID", async () => {
    for (const text of ["yes\n", "thanks\n", "👍\n", ""]) {
      const first = await digest(mail({}, text));
      expect(await digest(mail({ "Message-ID": "<m2@example.org>" }, text))).not.toBe(first);
      expect(await digest(mail({ Date: "Fri, 3 May 2024 10:00:01 +0000" }, text))).not.toBe(first);
      const nameless = { "Message-ID": null };
      expect(await digest(mail({ ...nameless, Date: "Fri, 3 May 2024 10:00:01 +0000" }, text))).not.toBe(
        await digest(mail(nameless, text)),
      );
    }
  });
  it("two with one Message-ID and one Date, from a program that repeats them", async () => {
    const first = await digest(mail({}, "Name: Anna\nQuestion: when?\n"));
    expect(await digest(mail({}, "Name: Ben\nQuestion: when?\n"))).not.toBe(first);
    expect(await digest(mail({}, "👍\n"))).not.toBe(await digest(mail({}, "👎\n")));
  });
  it("two without a Message-ID that differ in anything of the author", async () => {
    const nameless = { "Message-ID": null };
    const one = multipart(
      "mixed",
      [
        { type: "text/plain", body: "see" },
        { type: "image/png; name=a.png", body: Buffer.from("a") },
      ],
      nameless,
    );
    const first = await digest(one);
    const text = Buffer.from(one).toString();
    for (const [from, to] of [
      ["anna@", "ben@"],
      ["My parcel", "Your parcel"],
      ["see", "look"],
      ["YQ==", "Yg=="],
      ["10:00:00", "10:00:01"],
    ] as const) {
      const other = Buffer.from(text.replaceAll(from, to));
      expect(other.equals(Buffer.from(one)), from).toBe(false);
      expect(await digest(other), from).not.toBe(first);
    }
  });
  it("any text of the author that resembles a footer", async () => {
    const text = (words: string) => `Hello\n---\n${words}\nand one line more\nand another\n`;
    expect(await digest(mail({}, text("call me at noon")))).not.toBe(await digest(mail({}, text("call me at one"))));
  });
});

it("takes linear time over hostile text", async () => {
  for (const line of ["-=", "--\n", "unsubscribe ", "_".repeat(150), "<b>", "\n"]) {
    const started = process.cpuUsage();
    const result = await parser.parse(mail({}, line.repeat(500_000 / line.length)), {
      senderAuth: { mode: "off" },
    });
    const { user } = process.cpuUsage(started);
    expect(result.ok, line).toBe(true);
    expect(user, line).toBeLessThan(5_000_000);
  }
});
