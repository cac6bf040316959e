// Which messages are a person's word on being written to, and which only look like it.

import { describe, expect, it } from "vitest";
import { consentOf, languages, type Words } from "../../../adapters/sms/consent.ts";

const english: Words = { languages: ["en"], add: {}, remove: [] };
const all: Words = { languages, add: {}, remove: [] };

describe("a word on being written to", () => {
  const stops = [
    "STOP",
    "stop",
    "Stop.",
    " stop ",
    "«Stop!»",
    '"STOP"',
    "S T O P",
    "STOPALL",
    "stop all",
    "UNSUBSCRIBE",
    "End",
    "quit",
    "CANCEL",
    "revoke",
    "OPTOUT",
    "opt out",
    "Opt-Out",
    "ＳＴＯＰ",
    "stop 🛑",
    "STOP\n",
    "STOP\u200b",
  ];
  it.each(stops)("%j stops", (text) => {
    expect(consentOf(text, english)).toBe("stop");
  });

  it.each([
    ["START", "start"],
    ["unstop", "start"],
    ["HELP", "help"],
    ["help?", "help"],
    ["Info", "help"],
  ])("%j is %s", (text, word) => {
    expect(consentOf(text, english)).toBe(word);
  });

  it.each([
    ["STOPP", "stop"],
    ["Abmelden!", "stop"],
    ["kündigen", "stop"],
    ["KUNDIGEN", "stop"],
    ["Hilfe", "help"],
    ["ARRÊT", "stop"],
    ["arret", "stop"],
    ["aide", "help"],
    ["BAJA", "stop"],
    ["parar", "stop"],
    ["AYUDA", "help"],
    ["Annulla", "stop"],
    ["aiuto", "help"],
    ["SAIR", "stop"],
    ["ajuda", "help"],
    ["afmelden", "stop"],
    ["hulp", "help"],
    ["Rezygnuję", "stop"],
    ["WYPISZ", "stop"],
    ["POMOC", "help"],
    ["wznów", "start"],
  ])("%j is %s in a language that was asked for, and nothing in English", (text, word) => {
    expect(consentOf(text, all)).toBe(word);
    expect(consentOf(text, english)).toBeNull();
  });

  it("English words count in every language", () => {
    expect(consentOf("STOP", { ...english, languages: ["de"] })).toBe("stop");
    expect(consentOf("Stop", { ...english, languages: [] })).toBe("stop");
  });

  it("words are added and taken away", () => {
    const words: Words = {
      languages: ["en"],
      add: { stop: ["NO"], start: ["yes", "Oui!"] },
      remove: ["end", "In Fo"],
    };
    expect(consentOf("no", words)).toBe("stop");
    expect(consentOf("YES!", words)).toBe("start");
    expect(consentOf("oui", words)).toBe("start");
    expect(consentOf("END", words)).toBeNull();
    expect(consentOf("info", words)).toBeNull();
    expect(consentOf("yes", english)).toBeNull();
  });
});

describe("a message like any other", () => {
  it.each([
    "STOP 12345",
    "please stop texting me",
    "When does the bus stop?",
    "don't stop",
    "Stop it",
    "the end",
    "start now",
    "I need help",
    "help me",
    "",
    " ",
    "!!!",
    "👍",
    "yes",
    "no",
    "1",
    "cancel my order",
    "st",
    "stopwatch",
    "stop".repeat(200),
  ])("%j", (text) => {
    expect(consentOf(text, all)).toBeNull();
  });
});
