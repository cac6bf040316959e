// What is written under a reply: threading, signature, markup, and no way for anybody's text into the headers.

import { externalId, type Reply, sendKey, threadToken } from "bridgehead/contract";
import * as fc from "fast-check";
import PostalMime from "postal-mime";
import { describe, expect, it } from "vitest";
import type * as z from "zod";
import { config as schema } from "../../../../adapters/email/config.ts";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import { compose, referencesOf, renderMarkdown } from "../../../../adapters/email/smtp/compose.ts";
import { messageBytes, readDraft } from "../../../../adapters/email/smtp/send.ts";

const server = { host: "127.0.0.1", tls: "none" } as const;
const settings = (more: Partial<z.input<typeof schema>> = {}) =>
  schema.parse({
    imap: { ...server, user: "support@example.com", password: "x" },
    smtp: server,
    aliases: ["help@example.org"],
    ...more,
  });
const self = identity("support@example.com", ["help@example.org"]);
const reply: Reply = {
  kind: "answer",
  key: sendKey("01hzx7key"),
  createdAt: new Date("2026-11-20T10:00:00Z"),
  to: [{ address: "ann@example.net", name: "Ann" }],
  cc: [{ address: "bob@example.net" }, { address: "help@example.org" }],
  subject: "Where is it?",
  text: "It is **here**.",
  signature: "Kind regards\nThe team",
  introduction: null,
  senderName: "Support",
  answers: externalId("<q2@example.net>"),
  history: ["<q1@example.net>", "<a1@example.com>", "<q2@example.net>"].map(externalId),
  token: threadToken("tok3ntok3ntok3n"),
  hops: 1,
  session: null,
};
const draftOf = (more: Partial<Reply> = {}, configured = settings()) => {
  const [draft] = compose(configured, self, { ...reply, ...more });
  if (draft === undefined) throw new Error("no draft");
  return draft;
};
const sent = async (more: Partial<Reply> = {}, configured = settings()) =>
  (await messageBytes(readDraft(draftOf(more, configured)))).toString("latin1");
const headersOf = (raw: string) =>
  raw
    .slice(0, raw.indexOf("\r\n\r\n"))
    .replace(/\r\n[ \t]+/g, " ")
    .split("\r\n");
const header = (raw: string, name: string) =>
  headersOf(raw)
    .filter((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}: `))
    .map((line) => line.slice(name.length + 2));

describe("threading", () => {
  it("answers in the thread", async () => {
    const raw = await sent();
    expect(header(raw, "In-Reply-To")).toEqual(["<q2@example.net>"]);
    expect(header(raw, "References")).toEqual(["<q1@example.net> <a1@example.com> <q2@example.net>"]);
    expect(header(raw, "Message-ID")).toEqual(["<01hzx7key.bridgehead@example.com>"]);
    expect(header(raw, "Subject")).toEqual(["Re: Where is it?"]);
    expect(header(raw, "From")).toEqual(["Support <support@example.com>"]);
    expect(header(raw, "To")).toEqual(["Ann <ann@example.net>"]);
    expect(header(raw, "Auto-Submitted")).toEqual(["auto-replied"]);
    expect(header(raw, "X-Auto-Response-Suppress")).toEqual(["OOF, AutoReply, DR, RN, NRN"]);
    expect(header(raw, "X-Bridgehead-Hops")).toEqual(["1"]);
    expect(header(raw, "Date")).toEqual(["Fri, 20 Nov 2026 10:00:00 +0000"]);
  });

  it.each([
    ["Re: Where", "Re: Where"],
    ["RE: Where", "RE: Where"],
    ["AW: Wo", "AW: Wo"],
    ["Sv: Hvor", "Sv: Hvor"],
    ["回复：在哪里", "回复：在哪里"],
    ["R: Dove", "R: Dove"],
    ["Ответ: Где", "Ответ: Где"],
    ["RE[2]: Where", "RE[2]: Where"],
    ["[EXT] AW: Wo", "[EXT] AW: Wo"],
    ["[EXT] Wo", "Re: [EXT] Wo"],
    ["Odg: Gdje", "Odg: Gdje"],
    ["Re(2): Where", "Re(2): Where"],
    ["Gæt: Hvar", "Re: Gæt: Hvar"],
    ["Gæt: Re: Gæt: Hvar", "Gæt: Re: Gæt: Hvar"],
    ["Fwd: Re: Where", "Re: Fwd: Re: Where"],
    ["Regarding it", "Re: Regarding it"],
    ["", "Re:"],
  ])("puts Re: once in front of %j", (subject, expected) => {
    expect(draftOf({ subject }).subject).toBe(expected);
  });

  it("begins a thread of its own when it answers nothing", async () => {
    const raw = await sent({ answers: null, history: [], subject: "Hello" });
    expect(header(raw, "Subject")).toEqual(["Hello"]);
    expect(header(raw, "In-Reply-To")).toEqual([]);
    expect(header(raw, "Auto-Submitted")).toEqual(["auto-generated"]);
  });

  it("cites only ids that the recipient knows", () => {
    const surrogate = externalId("<0123456789@no-message-id.invalid>");
    const draft = draftOf({ answers: surrogate, history: [externalId("<q1@example.net>"), surrogate] });
    expect(draft.inReplyTo).toBeNull();
    expect(draft.references).toEqual(["<q1@example.net>"]);
    expect(draft.subject).toBe("Re: Where is it?");
  });

  it("cites no id outside ASCII, which a server without SMTPUTF8 rejects in a header", () => {
    expect(referencesOf([externalId("<ä@x>"), externalId("<a;b=c@x>")], null)).toEqual(["<a;b=c@x>"]);
  });
  it("bounds References by leaving out the middle", () => {
    const all = Array.from({ length: 50 }, (_, i) => externalId(`<${i}@example.net>`));
    const kept = referencesOf(all, externalId("<49@example.net>"));
    expect(kept).toHaveLength(20);
    expect([kept[0], kept[1], kept.at(-1)]).toEqual(["<0@example.net>", "<31@example.net>", "<49@example.net>"]);
  });

  it("recognises its own ids, and only its own", () => {
    expect(self.keyOf("<01hzx7key.bridgehead@example.com>")).toBe("01hzx7key");
    expect(self.keyOf("<01hzx7key.bridgehead@example.org>")).toBe("01hzx7key");
    for (const other of [
      "<01hzx7key.bridgehead@evil.example>",
      "<x@example.com>",
      "<a.b.bridgehead@example.com>",
      "",
    ]) {
      expect(self.keyOf(other), other).toBeNull();
    }
  });
});

describe("addresses", () => {
  it("answers the sender only, or all but ourselves", () => {
    expect(draftOf().cc).toEqual([]);
    const all = draftOf({}, settings({ reply: "all" }));
    expect(all.cc).toEqual([{ address: "bob@example.net", name: "" }]);
  });

  it("offers an address with the conversation's token", async () => {
    const raw = await sent({}, settings({ token_address: true }));
    expect(header(raw, "Reply-To")).toEqual(["support+tok3ntok3ntok3n@example.com"]);
    expect(self.tokenOf("Support+tok3ntok3ntok3n@Example.com")).toBe("tok3ntok3ntok3n");
    expect(self.tokenOf("support+x@example.com")).toBeNull();
    expect(self.tokenOf("other+tok3ntok3ntok3n@example.com")).toBeNull();
  });

  it("prefers the configured name to the skill's", () => {
    const smtp = { ...server, from_name: "Example Ltd" };
    expect(draftOf({}, settings({ smtp })).from.name).toBe("Example Ltd");
    expect(draftOf({ senderName: null }).from.name).toBe("");
  });
});

describe("the body", () => {
  it("has introduction, answer, signature and marker, in text and in HTML", () => {
    const { text, html } = draftOf({ introduction: "Hello Ann," });
    expect(text).toBe("Hello Ann,\n\nIt is here.\n\n-- \nKind regards\nThe team\n\n[ref:bh-tok3ntok3ntok3n]\n");
    expect(html).toContain("<p>It is <strong>here</strong>.</p>");
    expect(html.indexOf("Hello Ann")).toBeLessThan(html.indexOf("here"));
    expect(html).toMatch(/class="signature"[^>]*>-- <br><p>Kind regards<br>The team<\/p>/);
    expect(draftOf({ signature: null }, settings({ body_marker: false })).text).toBe("It is here.\n");
  });

  it.each([
    ["<script>alert(1)</script> hi", /<script/i],
    ["<img src=x onerror=alert(1)>", /<img/i],
    ["a <b onmouseover=x>b</b>", /<b /i],
    ["[x](javascript:alert(1))", /javascript:/i],
    ["[x](data:text/html,hi)", /href/i],
    ["![track](https://evil.example/pixel.png)", /<img|evil/i],
    ['[x](https://e.example/"onclick="y)', /onclick="/i],
    ["<a href='javascript:x'>y</a>", /<a /i],
    ["<https://e.example/><style>*{}</style>", /<style/i],
  ])("lets no markup of the agent's own through: %s", (markdown, forbidden) => {
    expect(renderMarkdown(markdown).html).not.toMatch(forbidden);
  });

  it("links to the web and to mail", () => {
    const { html } = renderMarkdown("[here](https://example.com/a?b=1&c=2) or a@example.com");
    expect(html).toContain('<a href="https://example.com/a?b=1&amp;c=2">here</a>');
    expect(html).toContain('<a href="mailto:a@example.com">a@example.com</a>');
  });

  it.each([
    ["# Title\n\nA *b* **c** `d`", "Title\n\nA b c d"],
    ["- one\n- two\n  - three", "- one\n- two\n  - three"],
    ["3. a\n4. b", "3. a\n4. b"],
    ["[here](https://example.com) and <https://example.org>", "here (https://example.com) and https://example.org"],
    ["a@example.com", "a@example.com"],
    ["```\ncode *x*\n```", "code *x*"],
    ["> quoted\n> more", "| quoted\n| more"],
    ["| a | b |\n|---|---|\n| 1 | 2 |", "a | b\n1 | 2"],
    ["one\ntwo", "one\ntwo"],
    ["a \\* b & c < d", "a * b & c < d"],
    ["<b>x</b>", "<b>x</b>"],
    ["![logo](https://e.example/x.png)", "logo"],
    ["Call [us](tel:+4930123) or [+4930123](tel:+4930123)", "Call us (+4930123) or +4930123"],
    ["https://müller.example/straße?q=ü", "https://müller.example/straße?q=ü"],
    ["one<br>two<br/>\nthree<BR />four `<br>`", "one\ntwo\nthree\nfour <br>"],
    ["| a | b |\n|---|---|\n| 1<br>2 | 3 |", "a | b\n1, 2 | 3"],
  ])("reads as text: %j", (markdown, text) => {
    expect(renderMarkdown(markdown).text.replace(/^ {4}/, "")).toBe(text);
  });

  it("says in HTML which parts are written from right to left", () => {
    const { html } = draftOf({ text: "1. שלום\n2. תודה (4711).", signature: "The team" });
    expect(html).toMatch(/^<div dir="rtl"><ol>[^]*<div class="signature" style/);
    expect(draftOf({ text: "Hello (مرحبا)", signature: "مع التحية" }).html).toMatch(
      /^<div><p>[^]*<div class="signature" dir="rtl" style/,
    );
  });

  it.each(["-- \nThe team", "--\r\n\r\nThe team", "<p>--&nbsp;<br>The team</p>"])(
    "has one delimiter above a signature that brings its own: %j",
    (signature) => {
      const { text, html } = draftOf({ signature }, settings({ body_marker: false }));
      expect(text).toBe("It is here.\n\n-- \nThe team\n");
      expect(html).toMatch(/class="signature"[^>]*>-- <br><p>The team<\/p>/);
    },
  );

  it("keeps the lines that a signature draws, which Markdown takes for marks of headings", () => {
    const signature = "Kind regards\nThe team\n--------\nAcme\n===\r\nStreet 1\n---";
    const { text, html } = draftOf({ signature, introduction: "Hello\n-" }, settings({ body_marker: false }));
    expect(text).toBe(`Hello\n-\n\nIt is here.\n\n-- \n${signature.replace("\r", "")}\n`);
    expect(html).not.toMatch(/<h\d|<hr|<li/);
    const long = `${"x".repeat(2_000)}\n---`;
    expect(draftOf({ signature: long }).text).toContain(`-- \n${long}\n`);
  });

  it("has the words of a signature that was written as HTML, and leaves other signs alone", () => {
    const signature = '<p>Kind regards<br><b>The Team</b> &amp; Co</p>\n<div><img src="https://e.example/l.png"></div>';
    const { text, html } = draftOf({ signature }, settings({ body_marker: false }));
    expect(text).toBe("It is here.\n\n-- \nKind regards\nThe Team & Co\n");
    expect(html).toMatch(/-- <br><p>Kind regards<br>The Team &amp; Co<\/p><\/div>$/);
    expect(draftOf({ signature: "a < b > c\n<a@example.com>" }).text).toContain("a < b > c\na@example.com");
  });

  it("renders an answer that is HTML as a whole, without its styles and scripts", () => {
    const html = `<!DOCTYPE html><html><head><style>p { color: red }</style></head><body>
      <p style="color:red">Hello <b>Anna</b>,<br>see <a class="x" href="https://e.example/t?a=1&amp;b=2"><i>the page</i></a>.</p>
      <ul><li>Lamp A</li><li>Lamp B</li></ul><ol><li>Pay</li><li>Wait</li></ol>
      <table><tr><th>Item</th><th>Price</th></tr><tr><td>A</td><td>3 &lt; 4</td></tr></table>
      <div>Write to <a href="mailto:a@e.example">a@e.example</a>, <a href="javascript:x()">not here</a></div>
      <script>alert("<p>")</script></body></html>`;
    const { text, html: shown } = renderMarkdown(`\n${html}`);
    expect(text.split("\n").filter((line) => line !== "")).toEqual([
      "Hello Anna,",
      "see the page (https://e.example/t?a=1&b=2).",
      "- Lamp A",
      "- Lamp B",
      "1. Pay",
      "2. Wait",
      "Item | Price",
      "A | 3 < 4",
      "Write to a@e.example, not here",
    ]);
    expect(shown).toContain('<a href="https://e.example/t?a=1&amp;b=2">the page</a>.</p>\n<ul>\n<li>Lamp A</li>');
    expect(shown).not.toMatch(/&lt;[a-z/]|script|style|alert/);
    const line = 'Hi,<br><br>order <b>4</b>: <a href="https://e.example/t">track it</a>.<br><br>Kind regards<br>Shop';
    expect(renderMarkdown(line).text).toBe("Hi,\n\norder 4: track it (https://e.example/t).\n\nKind regards\nShop");
  });

  it.each([
    "Use <b>bold</b> here.",
    "`<p>x</p>`",
    "```html\n<p>x</p>\n```",
    "<p> begins a paragraph",
    "Write <p>x</p>",
    "Write `<br><br>` and <b>x</b> and `<br><br>`",
    "Write <br><br> or <b>x</b>",
  ])("keeps the tags of a text about HTML: %s", (markdown) =>
    expect(renderMarkdown(markdown).html).toMatch(/&lt;[bp]&gt;/),
  );

  it("breaks a line in HTML where the text says so, and draws the lines of tables", () => {
    expect(renderMarkdown("a<br>b").html).toBe("<p>a<br>b</p>");
    expect(renderMarkdown("| a |\n|---|\n| 1<br>2 |").html).toMatch(/^<table border="1"[^]*<td>1<br>2<\/td>/);
  });
});

describe("the bytes", () => {
  it("are the same for every attempt, also after storing the draft", async () => {
    const draft = draftOf();
    const again = JSON.parse(JSON.stringify(draftOf()));
    expect(again).toEqual(draft);
    expect(await messageBytes(again)).toEqual(await messageBytes(draft));
  });

  it("carry text and HTML unchanged, in lines that every server accepts", async () => {
    const word = fc.constantFrom(
      "Hello ",
      "ü",
      "日本 ",
      "🙂",
      ".",
      "=",
      "-- ",
      "\n",
      "\r\n",
      " ",
      "x".repeat(90),
      "--01hzx7key",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(word, { maxLength: 60 }), fc.array(word, { maxLength: 60 }), async (one, two) => {
        const [text, html] = [`${one.join("")}\n`, `<p>${two.join("")}</p>`];
        const raw = await messageBytes({ ...draftOf(), text, html });
        expect(raw.toString("latin1")).not.toMatch(/[^\r]\n|\r[^\n]|[^\r\n]{999}/);
        const read = await PostalMime.parse(raw);
        // The parser ends each part with a line break.
        const normalized = (value: string | undefined) => value?.replace(/\r\n/g, "\n").trimEnd();
        expect(normalized(read.text)).toBe(normalized(text));
        expect(normalized(read.html)).toBe(normalized(html));
      }),
    );
  });

  it("carry any language", async () => {
    const raw = await sent({
      subject: "Où est-il ? 日本",
      text: "Grüße 日本語 🙂",
      senderName: "Müller, Zoë",
    });
    expect(raw).toMatch(/^[\x00-\x7f]*$/);
    expect(header(raw, "From")[0]).toMatch(/^=\?UTF-8\?.*<support@example.com>$/);
  });

  it("keep their headers with any text", async () => {
    const names = headersOf(await sent({}, settings({ reply: "all", token_address: true }))).map(
      (line) => line.split(":")[0],
    );
    const hostile = fc
      .array(
        fc.oneof(
          fc.string({ unit: "binary" }),
          fc.constantFrom("\r\n", "\n", "\r", "\0", "\u2028", "\u0085", "Bcc: x@y.z", ": ", "<", ">", '"', ","),
        ),
      )
      .map((parts) => parts.join(""));
    // 2000 times five places: 10,000 texts.
    const five = fc.tuple(hostile, hostile, hostile, hostile, hostile);
    await fc.assert(
      fc.asyncProperty(five, async ([subject, name, text, signature, introduction]) => {
        const to = [{ address: "ann@example.net", name }];
        const more = { subject, senderName: name, text, signature, introduction, to };
        const raw = await sent(more, settings({ reply: "all", token_address: true }));
        expect(headersOf(raw).map((line) => line.split(":")[0])).toEqual(names);
        expect(header(raw, "To")).toHaveLength(1);
        expect(header(raw, "To")[0]).toMatch(/(^|<)ann@example\.net>?$/);
      }),
      { numRuns: 2000, seed: 7 },
    );
  }, 120_000);

  it("cite no id that would begin another header", async () => {
    const hostile = ["<a\u0001b@c>", "<a\ud800@c>", "<a@c>\r\nBcc: x@y.z"].map(externalId);
    const raw = await sent({ history: [...hostile, ...reply.history], answers: hostile[0] ?? null });
    expect(header(raw, "In-Reply-To")).toEqual([]);
    expect(header(raw, "References")).toEqual(["<q1@example.net> <a1@example.com> <q2@example.net>"]);
  });

  it.each(["a\r\nBcc: x@y.z", "a\u0000", "a\u2028b"])("cannot be read with the subject %j", (subject) => {
    expect(() => readDraft({ ...draftOf(), subject })).toThrow("reading a stored draft failed");
  });
});
