// What an operator may write in a voice channel's block, and what the channel makes of it.

import { describe, expect, it } from "vitest";
import { personOf } from "../../../adapters/voice/engine/record.ts";
import voice from "../../../adapters/voice/index.ts";
import { languageOf, phrasesFor } from "../../../adapters/voice/speech/phrases.ts";

const { config } = voice;
const tokens = { auth_tokens: ["secret"] };
const problems = (block: object) =>
  config.safeParse(block).error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`) ?? [];

describe("the block", () => {
  it("needs the proof of its dialect, and nothing else", () => {
    expect(problems(tokens)).toEqual([]);
    expect(problems({})).toEqual(["auth_tokens: dialect twilio needs auth_tokens"]);
    expect(problems({ dialect: "gather" })).toEqual(["auth_tokens: dialect gather needs auth_tokens"]);
    expect(problems({ dialect: "telnyx", ...tokens })).toEqual(["telnyx: dialect telnyx needs telnyx"]);
    expect(problems({ dialect: "retell", retell: { secret: "s" } })).toEqual([]);
    expect(problems({ dialect: "jambonz", jambonz: { user: "u", password: "p" } })).toEqual([]);
  });

  it.each<[object, string]>([
    [{ auth_tokens: [] }, "auth_tokens"],
    [{ number: "0171 123" }, "number"],
    [{ language: "german" }, "language"],
    [{ speech_timeout: "100ms" }, "speech_timeout"],
    [{ transfer: {} }, "transfer"],
    [{ transfer: { dial: ["+15005550009"], redirect: "https://x.example" } }, "transfer"],
    [{ transfer: { dial: ["call me"] } }, "transfer.dial.0"],
    [{ transfer: { dial: ['sip:a"b@example.com'] } }, "transfer.dial.0"],
    [{ digits: { human: "00" } }, "digits.human"],
    [{ fillers: { first: "soon" } }, "fillers.first"],
    [{ max_sentences: 0 }, "max_sentences"],
  ])("refuses %j", (block, path) => {
    expect(problems({ ...tokens, ...block }).join()).toContain(`${path}: `);
  });

  it.each(["telnyx", "retell", "jambonz", "gather"])("refuses what only ConversationRelay has, for %s", (dialect) => {
    const given = {
      dialect,
      ...tokens,
      telnyx: { public_key: Buffer.alloc(32, 7).toString("base64"), token_key: "k" },
      retell: { secret: "s" },
      jambonz: { user: "u", password: "p" },
    };
    expect(problems(given)).toEqual([]);
    for (const setting of [
      { interrupt_sensitivity: "low" },
      { ignore_backchannel: true },
      { transcription_language: "multi" },
    ])
      expect(problems({ ...given, ...setting }).join()).toContain(`${Object.keys(setting)[0]}: dialect ${dialect}`);
  });

  it.each([
    { dialect: "retell", retell: { secret: "s" } },
    { dialect: "jambonz", jambonz: { user: "u", password: "p" } },
  ])("refuses a transfer that the dialect cannot make: %j", (block) => {
    const transfer = { redirect: "https://x.example" };
    const fix = "transfers calls to numbers and sip: addresses only: give dial";
    expect(problems({ ...block, transfer })).toEqual([`transfer: dialect ${block.dialect} ${fix}`]);
    expect(problems({ ...block, transfer: { dial: ["+15005550009"] } })).toEqual([]);
  });

  it("refuses a queue of Twilio's TaskRouter at another carrier", () => {
    const transfer = { enqueue: { workflow_sid: "WW1" } };
    const telnyx = { public_key: Buffer.alloc(32, 7).toString("base64"), token_key: "k" };
    expect(problems({ dialect: "telnyx", telnyx, transfer })).toEqual([
      "transfer: dialect telnyx has no such queue: only Twilio has TaskRouter",
    ]);
    expect(problems({ dialect: "telnyx", telnyx, transfer: { redirect: "https://x.example" } })).toEqual([]);
    for (const dialect of ["twilio", "gather"]) expect(problems({ dialect, ...tokens, transfer })).toEqual([]);
  });

  it("warns of an account that places no calls", () => {
    const warnings = (block: object) =>
      voice
        .review?.(config.parse({ ...tokens, ...block }), { publicUrl: null, trial: true })
        .map(({ message }) => message);
    const [account_sid, number] = [`AC${"0".repeat(32)}`, "+12025550100"];
    expect(warnings({ number })).toEqual([]);
    expect(warnings({ number, account_sid })).toEqual([]);
    expect(warnings({ account_sid })).toEqual(["places no calls: it needs number"]);
    const jambonz = { user: "a", password: "b" };
    expect(warnings({ dialect: "jambonz", jambonz, number, account_sid })).toEqual([
      "places no calls: dialect jambonz cannot, use twilio or gather",
    ]);
  });

  it.each<[object, string]>([
    [{ interrupt_sensitivity: "extreme" }, "interrupt_sensitivity"],
    [{ ignore_backchannel: "yes" }, "ignore_backchannel"],
    [{ language: "multi" }, "language"],
    [{ transcription_language: "multi", transcription_provider: "Google" }, "transcription_provider"],
    [{ transcription_language: "multi", tts_provider: "Google" }, "languages"],
  ])("refuses %j", (block, path) => {
    expect(problems({ ...tokens, ...block }).join()).toContain(`${path}: `);
  });

  it("accepts multi with Deepgram, and with languages for any voice", () => {
    const multi = { ...tokens, transcription_language: "multi" };
    expect(problems(multi)).toEqual([]);
    expect(problems({ ...multi, transcription_provider: "deepgram", tts_provider: "ElevenLabs" })).toEqual([]);
    expect(problems({ ...multi, tts_provider: "Google", languages: [{ code: "es-US" }] })).toEqual([]);
  });

  it("keeps its secrets marked", () => {
    const text = JSON.stringify(config.toJSONSchema({ io: "input" }));
    for (const key of ["auth_tokens", "token_key", "password"]) {
      const at = text.indexOf(`"${key}":`);
      expect(text.slice(at, at + 300), key).toContain('"secret":true');
    }
  });
});

describe("phrases", () => {
  const phrases = [
    { language: "en", goodbye: "Bye.", still_there: ["Hm?"] },
    { language: "en-GB", goodbye: "Cheerio." },
  ];
  const settings = config.parse({ ...tokens, languages: [{ code: "de-AT" }], phrases });

  it("are the configured ones of the nearest language, else the defaults", () => {
    expect(phrasesFor(settings, "en-US").goodbye).toBe("Bye.");
    expect(phrasesFor(settings, "en-GB").goodbye).toBe("Cheerio.");
    expect(phrasesFor(settings, "en-GB").stillThere).toEqual(["Hm?", "Hm?"]);
    expect(phrasesFor(settings, "de").goodbye).toMatch(/Wiederhören/);
  });

  it("are in a language of the configuration", () => {
    expect(languageOf(settings, "de")).toBe("de-AT");
    expect(languageOf(settings, "EN-us")).toBe("en-US");
    expect(languageOf(settings, "fr-FR")).toBeNull();
    expect(languageOf(settings, "")).toBeNull();
  });

  it("are in any language with configured texts, where the caller's is detected", () => {
    const any = config.parse({ ...tokens, transcription_language: "multi" });
    expect(languageOf(any, "de")).toBe("de");
    expect(languageOf(any, "fr-CA")).toBe("fr-CA");
    expect(languageOf(any, "ja")).toBeNull();
    const some = config.parse({ ...tokens, transcription_language: "multi", languages: [{ code: "es-US" }] });
    expect(languageOf(some, "es")).toBe("es-US");
    expect(languageOf(some, "de")).toBeNull();
  });
});

describe("people", () => {
  it("have the same identity in every call", () => {
    expect(personOf("+15005550001", "CA1").address).toBe("+15005550001");
    expect(personOf("sip:Ann@Example.com", "CA1").address).toBe("sip:ann@example.com");
    const inSip = ["sip:anonymous@anonymous.invalid", "sips:Unavailable@unknown.invalid", "Anonymous@192.0.2.7"];
    for (const withheld of [null, "", "Anonymous", "+266696687", "unknown", "sip:anonymous", ...inSip])
      expect(personOf(withheld, "CA1").address).toBe("anonymous:CA1");
  });
});
