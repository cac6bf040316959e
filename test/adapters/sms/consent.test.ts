// Which messages are opt-out keyword applied, and which only look like it.

import { describe, expect, it } from "vitest";
import { type ConsentWords, languages, consentOf as meaningOf } from "../../../adapters/sms/consent.ts";
import { countriesOf } from "../../../adapters/sms/numbers.ts";

const english: ConsentWords = { languages: ["en"], add: {}, remove: [] };
const all: ConsentWords = { languages, add: {}, remove: [] };
const consentOf = (text: string, words: ConsentWords, countries: readonly string[] = []) =>
  meaningOf(text, words, countries)?.word ?? null;

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
    "revoke",
    "OPTOUT",
    "opt out",
    "Opt-Out",
    "ＳＴＯＰ",
    "stop 🛑",
    "STOP\n",
    "STOP\u200b",
    `STOP${" ".repeat(140)}\n\n`,
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
    ["Hilfe", "help"],
    ["ARRÊT", "stop"],
    ["arret", "stop"],
    ["aide", "help"],
    ["parar", "stop"],
    ["AYUDA", "help"],
    ["aiuto", "help"],
    ["ajuda", "help"],
    ["afmelden", "stop"],
    ["hulp", "help"],
    ["WYPISZ", "stop"],
    ["POMOC", "help"],
    ["wznów", "start"],
  ])("%j is %s in a language that was asked for, and nothing in English", (text, word) => {
    expect(consentOf(text, all)).toBe(word);
    expect(consentOf(text, english)).toBeNull();
  });

  it("English keywords count in every language", () => {
    expect(consentOf("STOP", { ...english, languages: ["de"] })).toBe("stop");
    expect(consentOf("Stop", { ...english, languages: [] })).toBe("stop");
  });

  it("counts when it is repeated or signed, and only an exact keyword has no confirmation", () => {
    const words: ConsentWords = { ...all, add: { start: ["YES"], stop: ["bye bye"] } };
    expect(meaningOf("START START", words)).toEqual({ word: "start", confirmation: expect.any(String) as string });
    expect(meaningOf("yes! yes!", words)?.word).toBe("start");
    expect(meaningOf("bye bye", words)).toEqual({ word: "stop" });
    expect(meaningOf("bye bye bye bye", words)?.word).toBe("stop");
    expect(meaningOf("HELP HELP", words)).toEqual({ word: "help" });
    expect(meaningOf("Hilfe\n-John", words)).toEqual({ word: "help" });
    expect(consentOf("Cancel cancel", words, ["US"])).toBe("stop");
    expect(consentOf("Cancel\n- John", words, ["US"])).toBe("stop");
    expect(consentOf("Cancel cancel", words, ["GB"])).toBeNull();
    for (const text of ["stop start", "stop\nsent the parcel", "bye", "START\nnow", "-John", "\n-John"])
      expect(consentOf(text, words), text).toBeNull();
  });

  it("keywords are added and removed", () => {
    const words: ConsentWords = {
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
    "please stop by tomorrow",
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

describe("a word that is also a business term", () => {
  const numbers = {
    US: "+12025550100",
    DE: "+4930901820",
    CH: "+41446681800",
    FR: "+33142685300",
    ES: "whatsapp:+34912345678",
    IT: "+390236618300",
    NL: "+31207946001",
    BR: "+551132345678",
    PL: "+48221234567",
    GB: "+442079460018",
  } as const;
  const terms: readonly (readonly [string, "stop" | "start", readonly (keyof typeof numbers)[]])[] = [
    ["cancel", "stop", ["US"]],
    ["Remove", "stop", ["US"]],
    ["Yes", "start", ["US"]],
    ["Kündigen!", "stop", ["DE", "CH"]],
    ["beenden", "stop", ["DE", "CH"]],
    ["anmelden", "start", ["DE", "CH"]],
    ["fin", "stop", ["FR", "CH"]],
    ["BAJA", "stop", ["ES"]],
    ["alta", "start", ["ES"]],
    ["Annulla", "stop", ["IT", "CH"]],
    ["opzeggen", "stop", ["NL"]],
    ["SAIR", "stop", ["BR"]],
    ["cancelar", "stop", ["ES", "BR"]],
    ["rezygnuję", "stop", ["PL"]],
  ];

  it.each(terms)("%j is %s in its countries alone, and the sender is informed", (text, word, countries) => {
    for (const [country, number] of Object.entries(numbers)) {
      const meaning = meaningOf(text, all, countriesOf(number));
      if ((countries as readonly string[]).includes(country))
        expect(meaning, country).toEqual({ word, confirmation: expect.stringMatching(/START|STOP/) });
      else expect(meaning, country).toBeNull();
    }
    expect(meaningOf(text, all, countriesOf("12345")), "a short code").toBeNull();
  });

  it("is confirmed in the language it is of, in one text", () => {
    expect(meaningOf("opzeggen", all, ["NL"])?.confirmation).toContain("Antwoord START");
    expect(meaningOf("kündigen", all, ["DE"])?.confirmation).toContain("Antworten Sie START");
  });

  it("counts where the configuration says so, and nowhere else", () => {
    expect(consentOf("kündigen", { ...all, countries: ["DE"] }, ["US"])).toBe("stop");
    expect(consentOf("cancel", { ...all, countries: ["DE"] }, ["US"])).toBeNull();
    expect(consentOf("kündigen", { ...all, countries: [] }, ["DE"])).toBeNull();
    expect(consentOf("kündigen", { ...english }, ["DE"])).toBeNull();
    expect(consentOf("kündigen", { ...english, add: { stop: ["kündigen"] } })).toBe("stop");
    expect(consentOf("cancel", { ...english, remove: ["cancel"] }, ["US"])).toBeNull();
  });

  it.each(["STOP", "stop all", "Unsubscribe", "END", "quit", "revoke", "opt out", "START", "UNSTOP", "HELP", "info"])(
    "%j counts everywhere, without a confirmation of ours",
    (text) => {
      for (const number of [...Object.values(numbers), "12345", "Brand"])
        expect(meaningOf(text, { ...all, countries: [] }, countriesOf(number))).toEqual({
          word: expect.any(String) as string,
        });
    },
  );
});
