// What a phone displays of a reply: plain text, complete, in few and cheap messages.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clean, toPlain } from "../../../adapters/sms/text/plain.ts";
import { split, type TextOptions, textsOf } from "../../../adapters/sms/text/split.ts";
import { workedMs } from "../../support/clock.ts";

const usual: TextOptions = { target: 320, max: 1600, parts: 6, numbering: "(1/2)" };
const answer = (text: string, signature: string | null = null) =>
  ({ kind: "answer", text, signature, introduction: null }) as const;
const words = (count: number) => Array.from({ length: count }, (_, at) => `word${at}`).join(" ");

describe("markup", () => {
  const cases: Record<string, readonly [string, string]> = {
    "headings lose their signs": ["# Hello\n\nWorld", "Hello\n\nWorld"],
    "emphasis loses its signs": ["This is **very** _nice_ and ~~not~~ `code`", "This is very nice and not code"],
    "lists keep dashes and numbers": ["* one\n* two\n\n3. three\n4. four", "- one\n- two\n\n3. three\n4. four"],
    "nested lists stay readable": ["- a\n  - b\n- c", "- a\n- b\n- c"],
    "links show their address": ["See [our page](https://example.com/a).", "See our page (https://example.com/a)."],
    "bare links show once": [
      "See <https://example.com> or https://example.org",
      "See https://example.com or https://example.org",
    ],
    "addresses of mail and phone show bare": ["[Call](tel:+15550100)", "Call (+15550100)"],
    "script links lose their address": ["[x](javascript:alert(1))", "x"],
    "a table of two columns": ["| Item | Price |\n|--|--|\n| Tea | 2 |\n| Cake | **4** |", "Tea: 2\nCake: 4"],
    "a wide table": ["|a|b|c|\n|-|-|-|\n|1|2|3|", "a, b, c\n1, 2, 3"],
    "code blocks": ["```js\nlet x = [1];\n```", "let x = [1];"],
    "quotes and rules": ["> said\n\n---\n\nso", "said\n\nso"],
    "pictures become their names": ["![a cat](https://x.example/cat.png)", "a cat"],
    "HTML goes, its text stays": ["a<br>b <b>c</b> <!-- d -->e", "a\nb c e"],
    "an answer that is HTML keeps lists, lines, links and cells": [
      `<!DOCTYPE html><html><head><style>p{color:red}</style></head><body>\n<p>Hello&nbsp;<b>Anna</b>,<br>see <a href="https://e.example/t?a=1&amp;b=2">the page</a>.</p><ul><li>Lamp</li><li>Desk</li></ul><ol><li>Pay</li><li>Wait</li></ol><table><tr><td>Tea</td><td>2</td></tr></table></body></html>`,
      "Hello Anna,\nsee the page (https://e.example/t?a=1&b=2).\n\n- Lamp\n- Desk\n\n1. Pay\n2. Wait\n\nTea | 2",
    ],
    "entities are read": ["Tom &amp; Jerry&nbsp;&lt;3", "Tom & Jerry <3"],
    "line breaks are kept": ["one\ntwo", "one\ntwo"],
    "a sum is no emphasis": ["2 * 3 * 4 = 24", "2 * 3 * 4 = 24"],
  };
  it.each(Object.entries(cases))("%s", (_, [markdown, plain]) => {
    expect(clean(toPlain(markdown))).toBe(plain);
  });
});

describe("long markup", () => {
  const point = "**Bold** point with [a link](https://x.example/a) and text.";
  const plain = "Bold point with a link (https://x.example/a) and text.";
  const filled = (unit: string, separator: string, length: number) =>
    Array.from({ length: Math.ceil(length / (unit.length + separator.length)) }, () => unit).join(separator);

  it.each([
    ["paragraphs", "\n\n"],
    ["lines", "\n"],
    ["sentences", " "],
  ])("is removed from %s in long texts", (_, separator) => {
    for (const length of [4900, 5100, 17_000]) {
      const markdown = filled(point, separator, length);
      expect(clean(toPlain(markdown)), String(length)).toBe(markdown.replaceAll(point, plain));
    }
  });

  it("keeps lists, tables and code whole", () => {
    const list = Array.from({ length: 90 }, (_, at) => `${at + 1}. **Step ${at + 1}**`).join("\n");
    const code = `\`\`\`\nlet __a = "**b**";\n\nlet c;\n\`\`\``;
    const table = "| Item | Price |\n|--|--|\n| Tea | **2** |";
    const shown = `${list.replaceAll("**", "")}\n\n${code.replaceAll("```", "").trim()}\n\nTea: 2`;
    const markdown = filled([list, code, table].join("\n\n"), "\n\n", 9000);
    // A line of code is followed by one line break.
    expect(clean(toPlain(markdown)).replace(/\n+/g, "\n")).toBe(
      filled(shown, "\n\n", shown.length * markdown.split("Tea").length - shown.length).replace(/\n+/g, "\n"),
    );
  });

  it("keeps fenced code that is longer than a piece as it is", () => {
    const code = `~~~\n${filled("a = __b__ * c", "\n\n", 8000)}\n~~~`;
    const text = toPlain(`${point}\n\n${code}\n\n${point}`);
    expect(text).toBe(`${plain}\n\n${code}\n\n${plain}`);
  });

  it("finds the links that are defined in another piece", () => {
    const text = toPlain(
      `See [the page][1].\n\n${filled("Words and words.", "\n\n", 6000)}\n\n[1]: https://x.example/1`,
    );
    expect(text.startsWith("See the page (https://x.example/1).\n\nWords")).toBe(true);
    expect(text).not.toContain("[1]");
  });

  it("loses nothing of any text", () => {
    const word = fc.constantFrom("**a**", "b. ", "\n", "\n\n", "- ", "c ", "d".repeat(900), "```\n", "  ");
    fc.assert(
      fc.property(fc.array(word, { minLength: 50, maxLength: 400 }), (all) => {
        const letters = (text: string) => text.replace(/[^a-d]/g, "");
        expect(letters(toPlain(all.join("")))).toBe(letters(all.join("")));
      }),
      { numRuns: 200 },
    );
  });

  it("in great numbers stays within the time of a transaction", () => {
    for (const unit of ["![", "[{", "[a][b", "a|b\n-|-\n", "- a\n\n", "[a]: b\n\n"]) {
      toPlain(unit.repeat(2000));
      const began = workedMs();
      toPlain(unit.repeat(100_000 / unit.length));
      expect(workedMs() - began, unit).toBeLessThan(500);
    }
  });
});

describe("characters", () => {
  const cases: Record<string, readonly [string, string]> = {
    quotes: ["“It’s” ‚so‘ „gut“ «bon»", '"It\'s" \'so\' "gut" "bon"'],
    "dashes and dots": ["a – b — c… 5−3", "a - b - c... 5-3"],
    spaces: ["a\u00a0b\u2009c\u202fd\te", "a b c d e"],
    bullets: ["• one\n◦ two", "- one\n- two"],
    "invisible ones": ["a\u200bb\u2060c\ufeffd\u00ade\u202ef\u2066g", "abcdefg"],
    "joiners in Latin text": ["a\u200db\u200cc", "abc"],
    "joined emoji stay whole": ["👩‍👩‍👧 ❤️ 1️⃣", "👩‍👩‍👧 ❤️ 1️⃣"],
    "hidden tags": ["hi\u{e0041}\u{e0042}", "hi"],
    controls: ["a\u0000b\u0007c\u001bd\u0085e", "abcd\ne"],
    "tokens of models": ["Done.<|im_end|><|endoftext|></s>", "Done."],
    "tokens hidden in tokens": ["x<|im_<|a|>end|>y", "xy"],
    "half a pair": ["a\ud83d b", "a\ufffd b"],
    "accents stay": ["Crème brûlée, Łódź", "Crème brûlée, Łódź"],
    "letters are put together": ["e\u0301", "é"],
  };
  it.each(Object.entries(cases))("%s", (_, [text, plain]) => {
    expect(clean(text)).toBe(plain);
  });

  it("cleaning twice changes nothing more", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
        const once = clean(text);
        expect(clean(once)).toBe(once);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("parts", () => {
  it("a short answer is one text without a number", () => {
    expect(textsOf(answer("Hello **Ann**"), usual)).toEqual(["Hello Ann"]);
  });

  it("paragraphs stay together, and parts are numbered", () => {
    const [a, b] = [words(30), words(31)];
    expect(textsOf(answer(`${a}\n\n${b}`), usual)).toEqual([`(1/2) ${a}`, `(2/2) ${b}`]);
  });

  it("sentences stay together", () => {
    const sentence = (name: string) => `${name} ${words(12)}.`;
    const text = ["A", "B", "C", "D", "E"].map(sentence).join(" ");
    const parts = textsOf(answer(text), { ...usual, numbering: "" });
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) expect(part).toMatch(/^[A-E] .*\.$/);
    expect(parts.join(" ")).toBe(text);
  });

  const link = "https://shop.example.com/pay?Invoice=A-2025-00017&Token=8f3b!Next=/a.Html?B=1";

  it("a link is in one part, wherever it is in the text", () => {
    for (let before = 0; before <= 400; before++)
      for (const parts of [
        textsOf(answer(`${words(100).slice(0, before)} ${link} ${words(60)}`), usual),
        split(`${"你好。今天天气很好。".repeat(40).slice(0, before)}${link}。${"再见。".repeat(60)}`, 320),
        split(`${"x".repeat(before)} (www.example.com/A?B=1.C!D), and ${words(60)}`, 100),
      ])
        expect(
          parts.filter((part) => part.includes(link) || part.includes("(www.example.com/A?B=1.C!D)")),
          String(before),
        ).toHaveLength(1);
  });

  it("a link that is longer than a usual part is in one part", () => {
    const long = `${link}&signature=${"0123456789abcdef?A".repeat(30)}`;
    expect(textsOf(answer(long, "Ada"), usual)).toEqual([`${long}\nAda`]);
    const parts = textsOf(answer(`Pay here, please: ${long} ${words(60)}`), usual);
    expect(parts.filter((part) => part.includes(long))).toHaveLength(1);
    for (const part of parts) expect(part.length).toBeLessThanOrEqual(part.includes(long) ? usual.max : usual.target);
    expect(split(`${long} end`, 320).length, "longer than a text may be").toBe(2);
  });

  it("sentences stay together in a script without spaces", () => {
    const sentence = "今天天气很好。";
    for (const part of split(sentence.repeat(40), 100)) expect(part.replaceAll(sentence, "")).toBe("");
    expect(split("สวัสดีครับ!".repeat(40), 100).join("")).toBe("สวัสดีครับ!".repeat(40));
  });

  it("an endless word is cut, an emoji family is not", () => {
    const family = "👨‍👩‍👧‍👦";
    const parts = split(family.repeat(40), 50);
    for (const part of parts) expect(part.replaceAll(family, "")).toBe("");
    expect(parts.join("")).toBe(family.repeat(40));
  });

  it("numbers are as configured, also beyond nine", () => {
    const parts = textsOf(answer(words(300)), { target: 100, max: 100, parts: 3, numbering: "1 of 2:" });
    expect(parts.length).toBeGreaterThan(9);
    parts.forEach((part, at) => {
      expect(part.startsWith(`${at + 1} of ${parts.length}: `)).toBe(true);
      expect(part.length).toBeLessThanOrEqual(100);
    });
  });

  it("parts grow when there would be too many", () => {
    const text = words(200);
    const parts = textsOf(answer(text), { ...usual, parts: 3 });
    expect(parts.length).toBe(3);
    const [longest, shortest] = [Math.max(...parts.map((one) => one.length)), parts.at(-1)?.length ?? 0];
    expect(longest).toBeLessThan(1600);
    expect(shortest, "parts of about the same length").toBeGreaterThan(longest / 2);
  });

  it("nothing is cut off where even the longest parts are too few", () => {
    const text = words(1000);
    const parts = textsOf(answer(text), { target: 100, max: 200, parts: 2, numbering: "" });
    expect(parts.join(" ")).toBe(text);
  });

  it("a reply without text is marked as such", () => {
    for (const text of ["", " \n ", "\u200b", "<!-- -->", "---"]) {
      expect(textsOf(answer(text), usual)).toEqual(["(no text)"]);
    }
  });

  it("an introduction comes first", () => {
    const reply = { kind: "answer", text: "Yes.", introduction: "I am Ada.", signature: null } as const;
    expect(textsOf(reply, usual)).toEqual(["I am Ada.\n\nYes."]);
  });

  it("a notice is sent as it is written", () => {
    const reply = {
      kind: "notice",
      text: "* Reply STOP_ALL * to end",
      introduction: null,
      signature: null,
    } as const;
    expect(textsOf(reply, usual)).toEqual(["* Reply STOP_ALL * to end"]);
  });
});

describe("the signature", () => {
  const all = (text: string, signature: string, options = usual) => textsOf(answer(text, signature), options);

  it("ends the only part", () => {
    expect(all("Yes.", "Ada — Bridge Ltd")).toEqual(["Yes.\nAda - Bridge Ltd"]);
  });

  it("ends the last part of several, once", () => {
    const parts = all(words(100), "Ada, Bridge Ltd");
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.filter((part) => part.includes("Bridge Ltd"))).toEqual([parts.at(-1)]);
    expect(parts.at(-1)).toMatch(/\nAda, Bridge Ltd$/);
  });

  it("is left out where it would need a further part", () => {
    const text = words(46).slice(0, 315);
    expect(all(text, "Ada, Bridge Ltd")).toEqual([text]);
    const two = textsOf(answer(words(100)), { ...usual, target: 400 });
    const room = 400 - (two.at(-1)?.length ?? 0) - 1;
    expect(all(words(100), "s".repeat(room), { ...usual, target: 400 })).toEqual([
      two[0],
      `${two[1]}\n${"s".repeat(room)}`,
    ]);
    expect(all(words(100), "s".repeat(room + 1), { ...usual, target: 400 })).toEqual(two);
  });

  it("of any length is no part of its own", () => {
    const long = "s".repeat(200);
    expect(all("Yes.", long)).toEqual([`Yes.\n${long}`]);
    expect(all(words(40), long)).toEqual([words(40)]);
    expect(all("Yes.", "s".repeat(1700))).toEqual(["Yes."]);
  });

  it("makes parts longer where they grow anyway", () => {
    const options = { ...usual, target: 100, parts: 2 };
    const parts = all(words(60), "Ada, Bridge Ltd", options);
    expect(parts).toHaveLength(2);
    expect(parts[1]).toMatch(/\nAda, Bridge Ltd$/);
  });
});

describe("any text", () => {
  const options = fc.record({
    target: fc.integer({ min: 40, max: 400 }),
    max: fc.integer({ min: 60, max: 1600 }),
    parts: fc.integer({ min: 1, max: 10 }),
    numbering: fc.constantFrom("", "(1/2)", "1/2:"),
  });
  const text = fc.oneof(
    fc.lorem({ maxCount: 150 }),
    fc.string({ unit: "grapheme", maxLength: 700 }),
    fc.string({ unit: "binary", maxLength: 400 }),
    fc
      .array(fc.constantFrom("👩‍👩‍👧", "नमस्ते ", "é", " ", "\n", "word", "€[", "한국어", "."), {
        maxLength: 200,
      })
      .map((all) => all.join("")),
  );
  const dense = (all: readonly string[]) => all.join("").replace(/\s/g, "");

  it("is whole, in order, and within the limit", () => {
    fc.assert(
      fc.property(text, fc.option(fc.lorem({ maxCount: 5 })), options, (body, signature, chosen) => {
        const reply = { kind: "notice", text: body, signature, introduction: null } as const;
        const parts = textsOf(reply, chosen);
        expect(parts.length).toBeGreaterThan(0);
        for (const part of parts) {
          expect(part.length).toBeLessThanOrEqual(chosen.max);
          expect(part.trim()).not.toBe("");
        }
        const bare =
          parts.length === 1 || chosen.numbering === ""
            ? parts
            : parts.map((part) => part.replace(/^(\(\d+\/\d+\)|\d+\/\d+:) /, ""));
        const whole = clean(body) === "" ? "(no text)" : clean(body);
        const unsigned = textsOf({ ...reply, signature: null }, chosen);
        expect(parts.length, "a signature needs no part").toBe(unsigned.length);
        const isSigned = parts.at(-1) !== unsigned.at(-1);
        expect(dense(bare)).toBe(dense([whole, isSigned ? clean(signature ?? "") : ""]));
        const room =
          Math.min(chosen.target, chosen.max) - (unsigned.at(-1)?.length ?? 0) - clean(signature ?? "").length;
        if (signature && room > 0) expect(isSigned, "there is room for the signature").toBe(true);
        expect(textsOf(reply, chosen)).toEqual(parts);
      }),
      { numRuns: 600 },
    );
  });

  it("is never cut inside a grapheme", () => {
    const graphemes = new Intl.Segmenter("und", { granularity: "grapheme" });
    const count = (one: string) => [...graphemes.segment(one.replace(/\s/g, ""))].length;
    const mixed = fc.array(fc.constantFrom("👩‍👩‍👧", "🇩🇪 ", "é", "क्षि ", "word ", "❤️ ", "한 "), {
      maxLength: 150,
    });
    fc.assert(
      fc.property(mixed, fc.integer({ min: 20, max: 90 }), (all, most) => {
        const whole = all.join("");
        const parts = split(whole, most);
        expect(parts.reduce((sum, part) => sum + count(part), 0)).toBe(count(whole));
      }),
      { numRuns: 500 },
    );
  });

  it("parses a quarter of a million characters quickly", () => {
    const began = workedMs();
    const parts = textsOf(answer("lorem ipsum dolor ".repeat(14_000)), usual);
    expect(parts.length).toBeGreaterThan(100);
    expect(workedMs() - began).toBeLessThan(20_000);
  });
});
