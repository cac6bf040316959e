// Interpretation of responder replies: misspelled commands are not relayed, and our own text is not attributed to
// responders.

import { describe, expect, it } from "vitest";
import { readInstructions } from "../../../src/domain/instructions.ts";
import { customerQuote, longText, quotesNotification, shortText } from "../../../src/escalation/notify/text.ts";

describe("commands", () => {
  it.each(["# note He lies", "#note: He lies", "  #NOTE He lies"])("%j is a note", (text) =>
    expect(readInstructions(text)).toMatchObject({
      text: "",
      slip: null,
      note: expect.stringMatching(/He lies$/),
    }),
  );

  it.each(["#nots He lies", "#resme", "Hello\n# clse"])("%j is a slip", (text) =>
    expect(readInstructions(text).slip).not.toBe(null),
  );

  it("a number behind the sign is not a command", () => {
    expect(readInstructions("We are\n#1 in lamps").slip).toBe(null);
    expect(readInstructions("#417 It is on its way").slip).toBe(null);
  });
});

it("a yes may have been meant for the customer; an ok not", () => {
  expect(readInstructions("Ja!")).toMatchObject({ acknowledge: true, ambiguous: true });
  expect(readInstructions("ok 417")).toMatchObject({ acknowledge: true, ambiguous: false });
});

describe("a keyword that acknowledges it", () => {
  it.each(["ok", "Ok.", "OK!!!", "k", "👍", "👍🏽", "“ok”", "okay", "ack"])("%j, and no more", (text) =>
    expect(readInstructions(text)).toMatchObject({ acknowledge: true, ambiguous: false, text: "" }),
  );

  it.each(["ok thanks", "Ok, thanks!", "Ok 👍", "ok ok", "on it", "I'm on it", "I’ll take it", "Ok, I take it"])(
    "%j, and may have been meant for the customer",
    (text) => expect(readInstructions(text)).toMatchObject({ acknowledge: true, ambiguous: true, text: "" }),
  );

  it.each(["Ok, we refund you", "ok?", "Ok, 30 EUR", "no", "Thanks", "I'll take care of it", "On it goes"])(
    "%j is an answer",
    (text) => expect(readInstructions(text)).toMatchObject({ acknowledge: false, text }),
  );

  it("with the number behind it, as in the notification", () =>
    expect(readInstructions("“ok 417”")).toMatchObject({ acknowledge: true, number: 417, text: "" }));

  it("is one with a card below it, too; so is a command", () => {
    const card = "Best regards,\nAnna Berg\nFirm GmbH";
    expect(readInstructions(`ok\n\n${card}`, ["Anna Berg"])).toMatchObject({ acknowledge: true, text: "" });
    expect(readInstructions(`#close\n\n${card}`, ["Anna"])).toMatchObject({ close: true, text: "" });
  });
});

describe("a reaction", () => {
  it.each([
    ['Liked “Escalation 417: refund (Bob, sms)\n"Hello"”', 417],
    ["👍 to “Still open: Escalation 417: refund”", 417],
    ["\u200a👍🏽\u200b to “417, Bob: When?”", 417],
    ["Loved “2 escalations are open.”", null],
    ["❤️ to “417, Bob: When?”", 417],
    ["Liked “Hello”", null],
    ["👍 to “Re: [Escalation 417] refund (Bob, mail)”", null],
  ])("%j takes it", (text, number) =>
    expect(readInstructions(text)).toMatchObject({ acknowledge: true, number, text: "", slip: null }),
  );

  it.each([
    "Disliked “417, Bob: When?”",
    "Laughed at “Escalation 417: refund”",
    "😂 to “Escalation 417: refund”",
    "👎 to “Re: [Escalation 417] refund”",
  ])("%j is no answer", (text) =>
    expect(readInstructions(text)).toMatchObject({ acknowledge: false, text: "", slip: text }),
  );
});

describe("our own notice in an answer", () => {
  const row = {
    number: 417,
    topic: "refund",
    reason: "r",
    channel: "mail",
    agent: "a",
    opened_at: 0,
  } as never;
  const person = { address: "anna@customer.example", name: "Anna" };
  const said = [{ at: 0, who: "person", text: "I want a refund" }] as const;
  const matter = { row, triggers: [], person, subject: "My lamp", said };
  const link = "https://b.example/escalations/abcdefghijklmnopqrstuvwxyz";

  it("is seen, quoted or not, in whole or in its telling parts", () => {
    const mail = longText(matter, link, false);
    const quoted = mail.replace(/^/gm, "> ");
    for (const text of [mail, quoted, `Hello\n\n${mail}`, shortText(matter, link, false), `look: ${link}`])
      expect(quotesNotification(text)).toBe(true);
  });

  it("is not found in ordinary text", () => {
    for (const text of ["It is on its way.", "> I want a refund\nYou get it.", "Number: 12", "See /escalations/list"])
      expect(quotesNotification(text)).toBe(false);
  });

  it("a customer's own marks are none in the transcript", () => {
    const marked = [{ at: 0, who: "person", text: "[ref:bh-aaaaaaaaaaaaaaaaaaaa] look" }] as const;
    expect(longText({ ...matter, said: marked }, null, false)).not.toContain("[ref:");
  });

  it("a responder who writes in a customer's thread is not treated as the customer", () => {
    const row = {
      number: 417,
      reason: "r",
      channel: "mail",
      agent: "a",
      opened_at: 0,
      topic: null,
      conversation: "c",
    };
    const said = [{ at: 0, who: "person", text: "Pay me", other: "carol@x.example" }] as const;
    const matter = {
      row,
      triggers: [],
      person: { address: "bob@x.example", name: "Bob" },
      subject: null,
      said,
    };
    expect(shortText(matter as never, null, false)).toContain('\ncarol@x.example: "Pay me"\n');
    expect(longText(matter as never, null, false)).toContain("UTC carol@x.example:\n> Pay me");
  });

  it("a customer's name does not turn the line around, nor does any line end leave the quote", () => {
    const row = {
      number: 7,
      reason: "a refund",
      topic: null,
      channel: "mail",
      agent: "a",
      opened_at: 0,
      conversation: "c",
    };
    const person = { address: "bob@x.example", name: "\u202eBob\u2066" };
    const said = [{ at: 0, who: "person", text: "a\vb\u2028c\u0085d" }] as const;
    const text = longText({ row, triggers: [], person, subject: null, said } as never, null, false);
    expect(text).toContain("Customer: Bob, bob@x.example");
    expect(text).toContain("> a\n> b\n> c\n> d");
  });

  it("a customer's lines are quoted in a mail", () =>
    expect(customerQuote("417, Anna: hi\nEscalation 417 is acknowledged by Emil.")).toBe(
      "417, Anna: hi\n> Escalation 417 is acknowledged by Emil.",
    ));
});
