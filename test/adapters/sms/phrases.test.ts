// Requests for no more texts that are no keywords: which count as STOP, which a human must read, and which are ordinary.

import { describe, expect, it } from "vitest";
import { consentOf, languages } from "../../../adapters/sms/consent.ts";
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
  ])("%j is doubtful", (text) => {
    expect(consentOf(text, words)).toBeNull();
    expect(requestIn(text)).toBe("doubtful");
  });

  it.each([
    "please stop by tomorrow",
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
});
