// Footers of mail programs and signatures in replies of responders.

import { describe, expect, it } from "vitest";
import { withoutSignOff } from "../../src/domain/instructions.ts";

const names = ["Anna Berg", "Berg, Anna"];
const words = "We send a new one today.";

describe("the end of a message goes", () => {
  it.each([
    "Best regards,\nAnna Berg\nHead of Customer Care\n\nFirm GmbH | Lampenstr. 1 | Berlin\nT +49 30 123456 | anna@firm.example",
    "Mit freundlichen Grüßen\nAnna Berg\nKundendienst",
    "Mit freundlichen Grüßen / Best regards\n\nAnna Berg",
    "Mit freundlichen Grüßen / Best regards\n\ni. A. Anna Berg",
    "Viele Grüße\nAnna",
    "Viele Gru\u0308ße\nAnna",
    "Viele Grüße aus Berlin,\n\nAnna",
    "LG Anna",
    "Thanks and regards Anna Berg",
    "Cheers, Anna",
    "Thanks,\nAnna",
    "Kind regards – Anna",
    "*Best regards,*\n*Anna Berg*",
    "Cordialement,\nAnna Berg",
    "Un saludo,\nAnna",
    "Cordiali saluti\nAnna Berg",
    "Med vänliga hälsningar\nAnna",
    "Anna",
    "- Anna",
    "Anna Berg\nFirm GmbH",
    "Berg, Anna",
    "Anna Berg | Head of Customer Care",
    "Firm GmbH · Kundendienst\nAnna Berg\nT +49 30 123456",
    "VG\nAB",
    "Regards\nAnna\n\nCONFIDENTIALITY NOTICE: This e-mail is intended only for the person to whom it is addressed, and nobody else at all.",
  ])("%j", (end) => expect(withoutSignOff(`${words}\n\n${end}`, names)).toBe(words));

  it("with no line between, where nothing stands below", () =>
    expect(withoutSignOff(`${words}\nAnna`, names)).toBe(words));

  it("when there is nothing above it", () => {
    expect(withoutSignOff("-- \nAnna Berg\nFirm GmbH", names)).toBe("");
    expect(withoutSignOff("Best regards\nAnna Berg", names)).toBe("");
    expect(withoutSignOff("Anna Berg\nFirm GmbH", names)).toBe("");
  });

  it("but not text below it on purpose", () =>
    expect(withoutSignOff(`${words}\n\nBest, Anna\n\nP.S. It is blue.`, names)).toBe(`${words}\n\nP.S. It is blue.`));
});

describe("what people write stays", () => {
  it.each([
    words,
    "Anna,\n\nwe send a new one.",
    "Anna Berg,\n\nwe send a new one.",
    "Dear Bob,\n\nAnna Berg will call you tomorrow.\nShe knows all about it.",
    "Thanks for your patience.\nAnna from our team will call you.",
    "Thanks Anna,\nwe send a new one.",
    "Thank you!\n\nWe send a new one.",
    "Your contacts:\nAnna Berg\nTom Ray",
    "Hello Bob, please come by and ask for\nAnna\nat the desk. She has your lamp.",
    "Hello Bob, please come by and ask for\nAnna Berg\nat the desk. She has your lamp.",
    "Please write to\nTom Ray\nLampenstr. 1",
    "Best regards\nTom",
    "Best regards\nTR",
    "Please write to:\n\nFirm GmbH\nAnna Berg\nT +49 30 123456",
    "We found it.\n\nFirm GmbH has it.\nAsk for Anna Berg\nT +49 30 123456",
    `Best regards\nAnna\n${"One more line.\n".repeat(30)}`,
    "",
  ])("%j", (text) => expect(withoutSignOff(text, names)).toBe(text));

  it("any sign-off of a person without a name", () =>
    expect(withoutSignOff(`${words}\n\nBest regards\nAnna`, [])).toBe(`${words}\n\nBest regards\nAnna`));
});

it("is found in long texts at once", () => {
  const long = `${"Best regards, ".repeat(20_000)}\n${"a - ".repeat(20_000)}\n`.repeat(20);
  expect(withoutSignOff(long, names)).toBe(long);
});
