// A leading number in a responder's reply: the number of an escalation, or a part of the text.

import { describe, expect, it } from "vitest";
import { readInstructions } from "../../src/domain/instructions.ts";

const both = [true, false];
const words = (text: string) => ({ number: null, doubt: null, text, whole: text });

describe.each(both)("whether notified of several (%j) or of one", (several) => {
  const read = (text: string) => readInstructions(text, [], several);

  it.each(["#417 It is on its way", "417: It is on its way", "417:It is on its way", "417\nIt is on its way"])(
    "the number is a name in %j",
    (text) => expect(read(text)).toMatchObject({ number: 417, doubt: null, text: "It is on its way", whole: text }),
  );

  it.each(["417", "#417", "417.", "417:", "417 ok", "417 OK!", "ok 417", "OK #417.", "417, ok", "417 got it"])(
    "%j takes it",
    (text) => expect(read(text)).toMatchObject({ number: 417, acknowledge: true, text: "" }),
  );

  it.each([
    "10.50 EUR are refunded",
    "2:30 pm suits us",
    "3-5 days",
    "417.99 is the price",
    "12,50",
    "1.000 pieces",
    "Within 2 weeks",
    "2nd of May",
  ])("%j begins with no name", (text) => expect(read(text)).toMatchObject(words(text)));

  it.each(["417 #close", "#417: # close", "#close 417", "#close\n417", "417\n#close"])(
    "%j closes it, and says nothing to the customer",
    (text) => expect(read(text)).toMatchObject({ number: 417, acknowledge: false, close: true, text: "", slip: null }),
  );

  it.each(["ok 417 #close", "It is on its way #resume", "417 #clse", "close", "Resume."])("%j is a slip", (text) =>
    expect(read(text).slip).not.toBe(null),
  );
});

const weak = ["417 It is on its way", "417 it is on its way", "417, It is on its way", "417. It is on its way"];
const amounts = [
  "2 weeks, then it is back",
  "2 Wochen, dann ist es wieder da",
  "2 - 3 weeks, then it is back",
  "2 or 3 days",
  "2 bis 3 Tage",
  "24 heures",
  "3 días",
  "5 giorni",
  "4 dias",
  "2 dagen",
  "50 % are refunded",
  "50 euros are refunded",
  "2 business days",
  "3 pm suits us",
];

describe("notified of several", () => {
  it.each(weak)("the number is a name in %j", (text) =>
    expect(readInstructions(text, [], true)).toMatchObject({
      number: 417,
      doubt: null,
      text: expect.stringMatching(/^it is on its way$/i),
    }),
  );

  it.each(amounts)("the number in %j is asked about, and not taken out", (text) =>
    expect(readInstructions(text, [], true)).toMatchObject({
      ...words(text),
      doubt: Number(/\d+/.exec(text)?.[0]),
    }),
  );

  it("a word that begins with a command is not a command", () =>
    expect(readInstructions("417 Xaver is back")).toMatchObject({
      number: 417,
      text: "Xaver is back",
    }));
});

describe("notified of one", () => {
  it.each(weak)("the number in %j is part of the text, unless it is another escalation's", (text) =>
    expect(readInstructions(text, [], false)).toMatchObject({ ...words(text), doubt: 417 }),
  );

  it.each(amounts)("the number in %j is part of the text", (text) =>
    expect(readInstructions(text, [], false)).toMatchObject(words(text)),
  );
});

describe("a note never reaches the customer", () => {
  const secret = "she is a known fraud";

  it.each([
    "#note",
    "＃note",
    "﹟note",
    "#ｎｏｔｅ",
    "＃ＮＯＴＥ",
    "\u200b#note",
    "#\u200bnote",
    "#no\u00adte",
    "\ufeff# note",
    "\u2067#note\u2069",
    "\u00a0#note",
    "#\u00a0note",
    "♯note",
    "  #Note",
  ])("%j is a command", (command) => {
    for (const text of [`${command} ${secret}`, `It is on its way.\n${command}\n${secret}`]) {
      const words = readInstructions(text);
      expect(words).toMatchObject({ note: secret, slip: null });
      expect(words.text).not.toContain(secret);
    }
  });

  it.each([
    "(#note",
    ".#note",
    "*#note*",
    "**#note**",
    "\\#note",
    "_#note_",
    "`#note`",
    "~~#note~~",
    "[#note]",
    '"#note"',
    "“#note”",
    "„#note“",
    "«#note»",
    "- #note",
    "* #note",
    "• #note",
    "1. #note",
    "> #note",
    "| #note |",
    "…#note",
    "##note",
    "## note",
    "#-note",
    "#_note_",
    "#*note*",
    "#:note",
    "# \u200b-note",
    "&#35;note",
    "&num;note",
    "#️⃣note",
    "#n̲o̲t̲e̲",
    "#nóte",
    "#nоte", // a Cyrillic letter
    "(#nоte",
    "#notes",
    "#noet",
    "👉#note",
    "Hi(#note",
    "Hi:#note",
    "Hi.#note",
    "Hi\u2028#note:",
    "Hi #note",
    "Hi\u200b #\u200bnote",
    "417 (#note)",
    "(#close)",
    "*#resume*",
    ".#close",
  ])("%j blocks the relay, or is a command", (command) => {
    for (const text of [`${command} ${secret}`, `It is on its way.\n${command} ${secret}`]) {
      const { slip, text: relayed, whole } = readInstructions(text);
      if (slip === null) expect(`${relayed}${whole}`).not.toContain(secret);
      else expect(slip).not.toBe("");
    }
  });

  it("is found after every kind of line break", () => {
    for (const end of ["\n", "\r\n", "\r", "\v", "\f", "\u0085", "\u2028", "\u2029"])
      expect(readInstructions(`Hello${end}#note ${secret}`)).toMatchObject({
        text: "Hello",
        note: secret,
        slip: null,
      });
  });

  it.each([
    "You are #1 on our list.",
    "Order # 4711 is on its way",
    "C# is not supported",
    "Please note: it is on its way.",
    "We close at five. A note follows.",
    "See https://shop.example/help#notes-1",
    "Item&#8217;s here, & #5 too",
  ])("people may write %j", (text) =>
    expect(readInstructions(text)).toMatchObject({ slip: null, text, note: "", close: false }),
  );
});
