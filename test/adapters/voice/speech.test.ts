// What an answer sounds like: Markdown, addresses, pictures and signatures made speakable, sentences in order and whole. What short
// utterances of a caller mean.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { phrases, primary } from "../../../adapters/voice/speech/phrases.ts";
import { beginningOf, limit, sentences, sentencesOf, speakable } from "../../../adapters/voice/speech/speakable.ts";
import {
  isAcknowledgement,
  isBackchannel,
  isClosing,
  isGoodbye,
  isPresenceCheck,
} from "../../../adapters/voice/speech/utterances.ts";
import { workedMs } from "../../support/clock.ts";

const languages = ["en", "de", "fr", "es", "it", "pt", "nl", "pl"];
const said = (text: string) => speakable(text, "en");

describe("speakable", () => {
  it.each([
    ["emphasis and code marks", "It is **really** _simple_: press `OK`.", "It is really simple: press OK."],
    ["headings", "## Opening hours\n\nFrom 9 to 5.", "Opening hours. From 9 to 5."],
    ["short items as one enumeration", "We have:\n- red\n- green\n- blue", "We have: red, green, blue."],
    ["bullets that Markdown does not know", "We have:\n\n• red\n• green", "We have: red, green."],
    [
      "long items as sentences",
      "- Open the app. Then wait for it.\n- Press the button.",
      "Open the app. Then wait for it. Press the button.",
    ],
    ["numbered steps", "3. Open the app.\n4. Press start.", "3: Open the app. 4: Press start."],
    [
      "a table, row by row",
      "| Day | Opens | Closes |\n|---|---|---|\n| Monday | 9:00 | 17:00 |\n| Sunday | | noon |",
      "Monday: Opens 9:00, Closes 17:00. Sunday: Closes noon.",
    ],
    ["a link by its words", "See [our page](https://example.com/very?long=1).", "See our page."],
    ["a bare URL by its host", "See https://www.example.com/a/b?c=d.", "See example dot com."],
    ["an address in angle brackets", "<https://example.com>", "example dot com."],
    ["a mail address", "Write to jo.doe@my-shop.com!", "Write to jo dot doe at my dash shop dot com!"],
    ["a name that objects have in an address", "constructor@toString.com", "constructor at toString dot com."],
    ["a mail link", "[write us](mailto:a@example.com)", "write us."],
    ["credentials in a URL", "https://user:secret@example.com:8080/x", "example dot com."],
    ["emoji", "Done 🎉👩‍👩‍👧 👍🏽 now 🇩🇪!", "Done now!"],
    ["keycaps keep their digit", "Press 1️⃣ or 2.", "Press 1 or 2."],
    ["faces", "Sure :-) no problem ;)", "Sure no problem."],
    ["citations", "It is open [1], on Sundays too [2, 3].[^4]【4†source】", "It is open, on Sundays too."],
    ["footnotes", "Open now.[^a]\n\n[^a]: Says the site.", "Open now."],
    ["code blocks", "Run this:\n```sh\nrm -rf /\n```\nThen call us.", "Run this: Then call us."],
    ["pictures", "Here ![the map](https://x.example/m.png) it is.", "Here it is."],
    ["tags and comments", "A<br/>b <b>bold</b><!-- no --> end.", "Ab bold end."],
    [
      "an answer that is HTML",
      "<p>We have:</p><ul><li>red</li><li>blue</li></ul><p>Call us.</p>",
      "We have: red, blue. Call us.",
    ],
    ["entities", "Meier &amp; Co. are open &lt;now&gt;.", "Meier & Co. are open now."],
    ["what was struck out", "It costs ~~12~~ 10 euros, ~5 minutes.", "It costs 10 euros, 5 minutes."],
    ["a dash at the end", "One moment - ", "One moment."],
    ["dashes and arrows", "Settings → Network — then restart", "Settings, Network, then restart."],
    [
      "hyphens, ranges and numbers stay",
      "A well-known price: 3.50, 10-12 days.",
      "A well-known price: 3.50, 10-12 days.",
    ],
    ["rules", "One\n\n---\n\nTwo", "One. Two."],
    ["quotes", "> You said so.\n\nYes.", "You said so. Yes."],
    ["what looks indented", "Yes.\n\n    It is open.", "Yes. It is open."],
    ["invisible characters", "in­vis\u200bible\u202e \u0000text", "invisible text."],
    ["nothing speakable", "```\nx\n```\n\n![a](b) 🎉", ""],
    ["white space", "  \n\n ", ""],
  ])("says %s", (_, text, expected) => {
    expect(said(text)).toBe(expected);
  });

  it.each([
    ["en", "It is done.\n\nBest regards,\nYour Team\nExample Ltd"],
    ["de", "It is done.\n\nMit freundlichen Grüßen\nIhr Team"],
    ["fr", "It is done.\n\n*Cordialement,*\nL'équipe"],
    ["en", "It is done.\n-- \nExample Ltd, Main Street 1"],
  ])("does not say a signature (%s)", (lang, text) => {
    expect(speakable(text, lang)).toBe("It is done.");
  });

  it("keeps a closing word that is part of the answer", () => {
    expect(said("Regards")).toBe("Regards.");
    expect(said("Give him my best regards, he will like it.")).toContain("best regards");
  });

  it.each([
    ["ar", "هل تريد المتابعة؟"],
    ["hi", "आप कल आ सकते हैं।"],
    ["ur", "ہم کل کھلے ہیں۔"],
    ["zh", "我们九点开门。"],
  ])("adds no full stop to a sentence that has its own (%s)", (lang, text) => {
    expect(speakable(text, lang)).toBe(text);
  });

  it("pronounces addresses in the language of the call", () => {
    expect(speakable("a@b.de", "de-AT")).toBe("a ät b Punkt de.");
    expect(speakable("a@b.fr", "fr")).toBe("a arobase b point fr.");
    expect(speakable("a@b.com", "xx")).toBe("a at b dot com.");
  });

  const fragment = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 40 }),
    fc.string({ unit: "binary", maxLength: 20 }),
    fc.constantFrom(
      "**",
      "__",
      "`",
      "```",
      "# ",
      "\n",
      "\n\n",
      "- ",
      "1. ",
      "| a | b |\n|---|---|\n",
      "https://e.example/x?y",
      "[1]",
      "<b>",
      "</b>",
      "&lt;",
      "![",
      "](",
      "🎉",
      "~~",
      "word",
      "5 * 3",
      "<speak>",
      "-- \n",
      "a@b.example",
    ),
  );
  const markdown = fc.array(fragment, { maxLength: 30 }).map((parts) => parts.join(""));

  it("never contains markup, addresses, pictures or line ends", () => {
    fc.assert(
      fc.property(markdown, fc.constantFrom(...languages, "ja", ""), (text, lang) => {
        const spoken = speakable(text, lang);
        expect(spoken).not.toMatch(/[*_`#|~<>\n\r\t{}\\[\]]|https?:|www\.\w|\p{Extended_Pictographic}|\p{Cf}/u);
        expect(spoken).not.toMatch(/ {2}|^\s|\s$/);
        expect(spoken === "" || /[.!?…:;。！？]["')”’»]?$/.test(spoken)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it("says one line the same whether it is parsed as Markdown or needs no parser", () => {
    const units = [
      ...Array.from("aZé1 09.,:;!?()-+=#>|/@$%^{}'\"…—  \u00A0"),
      "www.",
      "https://a.b",
      "\\",
      "*",
      "_",
      "~~",
      "`",
      "[",
      "](",
      "<",
      "&amp;",
    ];
    const line = fc.array(fc.constantFrom(...units), { maxLength: 40 }).map((parts) => `A${parts.join("")}`);
    fc.assert(
      fc.property(line, (text) => {
        // A definition is not spoken, and a text of several lines is always parsed.
        expect(said(text)).toBe(said(`${text}\n\n[x]: /u`));
      }),
      { numRuns: 2000 },
    );
  });

  it("speaks plain text as it is", () => {
    const word = fc.stringMatching(/^[a-zäöüß]{2,10}$/).filter((one) => one !== "xd");
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 20 }), (words) => {
        expect(speakable(`${words.join(" ")}.`, "de")).toBe(`${words.join(" ")}.`);
      }),
    );
  });

  it.each([
    "[".repeat(50_000),
    "*a ".repeat(20_000),
    "<".repeat(50_000),
    "a@".repeat(30_000),
    "| ".repeat(30_000),
    "> ".repeat(9_000),
    "- ".repeat(9_000),
  ])("is quick with a hostile text (%#)", (text) => {
    const start = workedMs();
    said(text);
    expect(workedMs() - start).toBeLessThan(3_000);
  });
});

describe("sentences", () => {
  it.each([
    ["en", "Hello there. How are you? Fine!", ["Hello there.", "How are you?", "Fine!"]],
    [
      "en",
      "Dr. J. Smith is in. See e.g. No. 5. I said no. Bye.",
      ["Dr. J. Smith is in.", "See e.g. No. 5.", "I said no.", "Bye."],
    ],
    ["en", "It costs 3.50 euros. It was 1990. Then more.", ["It costs 3.50 euros.", "It was 1990.", "Then more."]],
    ["de", "Am 3. Mai kommt Dr. Müller, z. B. um 9 Uhr. Gut?", ["Am 3. Mai kommt Dr. Müller, z. B. um 9 Uhr.", "Gut?"]],
    ["pl", "To jest np. Kraków. Tak.", ["To jest np. Kraków.", "Tak."]],
    ["fr", "M. Dupont est là. Oui ?", ["M. Dupont est là.", "Oui ?"]],
    ["en", "Wait... what? Yes.", ["Wait... what?", "Yes."]],
    ["", "One. Two.", ["One.", "Two."]],
  ])("end where they end (%s)", (lang, text, expected) => {
    expect(sentences(text, lang)).toEqual(expected);
  });

  it("lose nothing, keep the order, and are never empty", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 300 }), fc.constantFrom(...languages), (text, lang) => {
        const found = sentences(text, lang);
        expect(found.join("").replace(/\s+/g, "")).toBe(text.replace(/\s+/g, ""));
        expect(found.every((one) => one.trim() === one && one !== "")).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it("are limited without losing the rest", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 1 })), fc.integer({ min: -2, max: 20 }), (all, most) => {
        const { now, rest } = limit(all, most);
        expect([...now, ...rest]).toEqual(all);
        expect(now.length).toBeLessThanOrEqual(Math.max(1, most));
        expect(all.length === 0 || now.length > 0).toBe(true);
      }),
    );
  });
});

describe("phrases", () => {
  it.each(languages)("are complete, distinct and speakable in %s", (lang) => {
    const own = phrases(lang);
    expect(own.lang).toBe(lang);
    const { fillers, stillThere, lang: _, ...single } = own;
    const all = [...fillers, ...stillThere, ...Object.values(single)];
    expect(fillers.length).toBeGreaterThanOrEqual(5);
    expect(new Set(fillers).size).toBe(fillers.length);
    expect(stillThere[0]).not.toBe(stillThere[1]);
    for (const phrase of all)
      expect(speakable(phrase, lang)).toBe(phrase.replace(/\s+/g, " ").replace(/ ([?!])/g, "$1"));
  });

  it("follow the language without its region, and fall back to English", () => {
    expect(phrases("de-AT")).toBe(phrases("de"));
    expect(phrases("PT_br").lang).toBe("pt");
    expect(phrases("ja").lang).toBe("en");
    expect(phrases("").lang).toBe("en");
    expect(phrases("constructor").lang).toBe("en");
    expect(speakable("a@b.com", "constructor")).toBe("a at b dot com.");
    expect(primary("en-US")).toBe("en");
  });
});

it("speaks the beginning of an endless answer, and reads no more of it than that", () => {
  const words = phrases("en");
  const spoken = beginningOf(`First. ${"Another one. ".repeat(200_000)}`, "en", 4, words);
  expect(spoken).toHaveLength(4);
  expect(spoken[0]).toBe("First.");
  // Lists are the dearest to read: a megabyte of bullets must cost what its beginning costs.
  const [few, many] = [10_000, 1_000_000].map((length) => sentencesOf("- ".repeat(length / 2), "en", words));
  expect(many).toEqual(few);
});

describe("short utterances, in every language we speak", () => {
  it.each(["uh-huh", "Mhm.", "mm hmm", "Aha!", "Hm, hm", "äh", "Ach so."])("%s is a back-channel", (text) => {
    expect(isBackchannel(text)).toBe(true);
  });
  it.each(["ja", "no", "uh, no", "hm, what?", "lamp", "", "!"])("%j is none", (text) => {
    expect(isBackchannel(text)).toBe(false);
  });
  it.each([
    "Yes.",
    "Yeah, go on please",
    "OK",
    "Alles klar, weiter bitte!",
    "Ja, gerne.",
    "Oui, s'il vous plaît",
    "D'accord, continuez",
    "Sí, por favor",
    "Vale, siga",
    "Sì, vada avanti",
    "Sim, pode continuar",
    "Ja, ga verder",
    "Tak, proszę",
    "mhm",
  ])("%s asks for more", (text) => {
    expect(isAcknowledgement(text)).toBe(true);
  });
  it.each(
    "Evet, tamam.|Да, да|Так, добре|Ναι|はい。|네, 네|好的，好的|نعم|כן|Kyllä|Ano, jasně|Igen|Da, da|Okej, visst|Selvfølgelig".split(
      "|",
    ),
  )("%s continues the rest, in a language without phrases of ours", (text) => {
    expect(isAcknowledgement(text)).toBe(true);
  });
  it.each([
    "No",
    "Hayır",
    "Нет",
    "いいえ",
    "不是",
    "No thanks",
    "Yes but when?",
    "Nein danke",
    "danke",
    "Weiter unten steht etwas anderes",
    "please",
    "thank you",
  ])("%s does not", (text) => {
    expect(isAcknowledgement(text)).toBe(false);
  });
  it.each([
    ["Hello?", true],
    ["Hello hello, are you still there?", true],
    ["Hallo, hören Sie mich?", true],
    ["Allô ? Vous êtes toujours là ?", true],
    ["¿Hola? ¿Sigue ahí?", true],
    ["Hello, where is my lamp?", false],
    ["Okay", false],
    ["", false],
  ])("a caller asks whether anybody is there with %j: %s", (text, is) => {
    expect(isPresenceCheck(text)).toBe(is);
  });
  it.each([
    "Bye!",
    "Okay thanks bye",
    "That's all, thank you.",
    "No, that's it.",
    "I will do that thank you bye",
    "Perfect. See you tomorrow, goodbye.",
    "Danke, tschüss!",
    "Nein danke, das war's. Auf Wiederhören!",
    "Vielen Dank, schönen Tag, tschüss",
    "Merci beaucoup, au revoir",
    "Non merci, c'est tout.",
    "Gracias, adiós",
    "Eso es todo, gracias",
    "Grazie mille, arrivederci",
    "Obrigado, tchau",
    "Bedankt, tot ziens",
    "Dziękuję, do widzenia",
  ])("a caller closes with %s", (text) => {
    expect(isClosing(text)).toBe(true);
  });
  it.each([
    "Goodbye?",
    "How do I say goodbye",
    "Bye bye, oh wait, where is my lamp",
    "I want to say goodbye to my contract",
    "Is that all?",
    "Hello",
    "Where can I see you?",
    "My name is Ciao Bella Ltd",
    "I did not hear you, can you repeat that",
    "",
  ])("a caller does not close with %j", (text) => {
    expect(isClosing(text)).toBe(false);
  });
  it.each([
    "Goodbye!",
    "Goodbye, Anna!",
    "Bye, have a great day!",
    "Have a nice day.",
    "Thank you for calling Acme, goodbye.",
    "Goodbye and thank you for calling Acme.",
    "Auf Wiederhören und einen schönen Tag noch!",
    "Gern geschehen, tschüss!",
    "Au revoir et bonne journée !",
    "¡Hasta luego!",
    "Arrivederci e buona giornata!",
    "Até logo!",
    "Tot ziens en een fijne dag!",
    "Do usłyszenia, miłego dnia!",
    "Vielen Dank für Ihren Anruf. Auf Wiederhören.".split(". ")[1] ?? "",
  ])("an agent says goodbye with %s", (text) => {
    expect(isGoodbye(text)).toBe(true);
  });
  it.each([
    "Before you say goodbye, let me confirm your address.",
    "Goodbye, but first I need your address.",
    "Shall we say goodbye?",
    'He said "goodbye".',
    "In German you say: auf Wiedersehen.",
    "Say goodbye to long waits.",
    "You can say goodbye to it whenever you like.",
    "Your order is on its way.",
    "",
    "We see you are a customer since May.",
  ])("an agent does not with %j", (text) => {
    expect(isGoodbye(text)).toBe(false);
  });
  it("are distinguished in linear time", () => {
    const timed = (length: number) => {
      const hostile = ["bye and ", "thank you ", "bye, ", "… ", "ß’", "y y "].map((part) =>
        part.repeat(length / part.length),
      );
      const began = workedMs();
      for (const text of hostile)
        for (const test of [isBackchannel, isAcknowledgement, isPresenceCheck, isClosing, isGoodbye]) test(text);
      return workedMs() - began;
    };
    timed(10_000);
    expect(timed(200_000)).toBeLessThan(Math.max(1000, timed(20_000) * 40));
  });
});
