// Requests for no more texts that are no keywords: which count as STOP, which a human must read, and which are ordinary.

import { describe, expect, it } from "vitest";
import { consentOf, isDoubtful, languages } from "../../../adapters/sms/consent.ts";
import { requestIn } from "../../../adapters/sms/phrases.ts";

const words = { languages, add: {}, remove: [] };

describe("a request for no more texts", () => {
  it.each([
    "please stop texting me",
    "Stop texting me!!",
    "STOP SENDING ME MESSAGES",
    "stop sending me text messages please",
    "Please stop",
    "stop, thank you",
    "Please opt me out.",
    "do not text me again",
    "Don't text me anymore",
    "don’t message me",
    "unsubscribe me",
    "take me off your list",
    "Please remove my number from your texting list",
    "Please unsubscribe",
    "please opt out",
    "quit please",
    "Hi, stop all please",
    "OK, end now.",
    "stop all messages",
    "stop texts",
    "STOP SMS",
    "End all of these text messages!",
    "cancel texts please",
    "No more texts please",
    "no more of your messages",
  ])("%j counts as STOP, with a confirmation", (text) => {
    expect(consentOf(text, words)).toEqual({
      word: "stop",
      confirmation: expect.stringContaining("START") as string,
    });
  });

  it("does not count when the channel has removed it", () => {
    expect(consentOf("Please opt me out!", { ...words, remove: ["please opt me out"] })).toBeNull();
  });

  it.each([
    "I told you to stop texting me about this",
    "Stop contacting me",
    "If you text me again I will sue. Leave me alone",
    "please remove me from whatever this is",
    "stop it",
    "退订",
    "СТОП",
    "Στοπ",
    "הסר",
    "수신거부",
    "iptal",
    "please stop this",
    "отписаться, please",
    "I want to unsubscribe",
    "unsubscribe from this list",
    "how do I unsubscribe from these texts?",
    "How do I opt out?",
    "I already opted out",
    "We would like to opt out of the newsletter",
    "I don't want any more texts",
    "can you please stop all messages to this phone",
  ])("%j is doubtful", (text) => {
    expect(consentOf(text, words)).toBeNull();
    expect(requestIn(text)).toBe("doubtful");
  });

  it.each([
    "please stop by tomorrow",
    "please stop by at five",
    "can I cancel my order",
    "please cancel",
    "Please end the call at five",
    "please start",
    "help please",
    "no more, thanks",
    "cancel the message",
    "When does the bus stop?",
    "STOP 12345",
    "don't stop",
    "can I opt out of the insurance?",
    "how do I unsubscribe from the newsletter?",
    "Please text me the address",
    "don't forget to text me",
    "my phone stopped sending messages",
    "I will stop sending the old form",
    "no messages",
    "remove the second item",
    "no",
    "",
    `stop texting me ${"a".repeat(320)}`,
  ])("%j is an ordinary message", (text) => {
    expect(requestIn(text)).toBeNull();
    expect(consentOf(text, words)).toBeNull();
  });

  it("in a longer message is ordinary when only a word of it is mentioned", () => {
    const long = `${"The report that you asked for is ready now. ".repeat(3)}One chapter says who may opt out.`;
    expect(requestIn(long)).toBeNull();
    expect(requestIn(long.slice(-40))).toBe("doubtful");
  });

  it("is ordinary when the channel has removed the keyword in it", () => {
    const removed = { ...words, remove: ["Unsubscribe", "end"] };
    for (const body of ["unsubscribe", "Please unsubscribe", "END", "end, thanks"]) {
      expect(consentOf(body, removed), body).toBeNull();
      expect(isDoubtful({ body }, removed), body).toBe(false);
    }
    expect(isDoubtful({ body: "I want to unsubscribe" }, removed)).toBe(true);
  });
});

describe("a courtesy", () => {
  const keywords = {
    en: ["stop", "stop all", "unsubscribe", "end", "quit", "revoke", "opt out"],
    de: ["stopp", "abmelden", "austragen"],
    fr: ["arrêt", "désabonner", "se désabonner", "désinscrire"],
    es: ["alto", "detener", "darse de baja"],
    it: ["ferma", "disiscriviti", "cancellami"],
    pt: ["pare", "descadastrar"],
    nl: ["stoppen", "afmelden", "uitschrijven"],
    pl: ["wypisz", "zatrzymaj"],
  };
  const courtesies =
    "please|now|thank you|bitte|danke|s'il vous plaît|svp|por favor|gracias|per favore|obrigado|alstublieft|proszę|dziękuję";

  it("changes nothing about a STOP keyword of any language", () => {
    for (const keyword of Object.values(keywords).flat())
      for (const courtesy of courtesies.split("|"))
        for (const text of [`${keyword} ${courtesy}`, `${courtesy}, ${keyword.toUpperCase()}!`])
          expect(consentOf(text, words)?.word, text).toBe("stop");
  });

  it("is answered with a confirmation in the language of the keyword", () => {
    expect(consentOf("Abmelden bitte", words)?.confirmation).toContain("Antworten Sie START");
    expect(consentOf("afmelden, dank u", words)?.confirmation).toContain("Antwoord START");
    expect(consentOf("stop bitte", words)?.confirmation).toContain("Reply START");
  });

  it("alone is an ordinary message", () => {
    for (const text of ["please", "Thank you!", "ok now"]) expect(consentOf(text, words), text).toBeNull();
  });
});
