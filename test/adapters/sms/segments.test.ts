// What a text costs, and how it is written on the wire.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { capacity, decodeGsm, encodeGsm, isGsm, segmentsOf } from "../../../adapters/sms/text/segments.ts";

describe("segments", () => {
  const cases: readonly (readonly [string, string, "gsm7" | "ucs2", number, number])[] = [
    ["nothing", "", "gsm7", 0, 1],
    ["one full", "a".repeat(160), "gsm7", 160, 1],
    ["one character more", "a".repeat(161), "gsm7", 161, 2],
    ["two full", "a".repeat(306), "gsm7", 306, 2],
    ["three", "a".repeat(307), "gsm7", 307, 3],
    ["signs of the extension cost two", "€".repeat(80), "gsm7", 160, 1],
    ["one curly quote", `${"a".repeat(159)}’`, "ucs2", 160, 3],
    ["one full of 16 bits", "я".repeat(70), "ucs2", 70, 1],
    ["two of 16 bits", "я".repeat(71), "ucs2", 71, 2],
    ["an emoji costs two", "🙂".repeat(35), "ucs2", 70, 1],
    ["emoji are never halved", "🙂".repeat(67), "ucs2", 134, 3],
    ["the longest in GSM", "a".repeat(1600), "gsm7", 1600, 11],
    ["the longest in Cyrillic", "я".repeat(1600), "ucs2", 1600, 24],
  ];
  it.each(cases)("%s", (_, text, encoding, units, count) => {
    const found = segmentsOf(text);
    expect([found.encoding, found.units, found.texts.length]).toEqual([encoding, units, count]);
  });

  it("an escaped character never stands on the edge", () => {
    const found = segmentsOf(`${"a".repeat(152)}€${"b".repeat(100)}`);
    expect(found.texts[0]).toBe("a".repeat(152));
    expect(found.texts[1]?.startsWith("€")).toBe(true);
  });

  it("joined, the segments are the text; none holds more than it can", () => {
    const signs = fc.array(fc.constantFrom("a", "é", "€", "[", "я", "🙂", " ", "\n"), { maxLength: 600 });
    fc.assert(
      fc.property(signs, fc.boolean(), (all, plain) => {
        const text = all.filter((sign) => !plain || isGsm(sign)).join("");
        const { encoding, texts } = segmentsOf(text);
        expect(texts.join("")).toBe(text);
        for (const one of texts) {
          const units = encoding === "gsm7" ? encodeGsm(one).length : one.length;
          expect(units).toBeLessThanOrEqual(capacity[encoding][texts.length === 1 ? "alone" : "each"]);
          expect(one.isWellFormed()).toBe(true);
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe("the GSM alphabet", () => {
  it("knows its characters and no others", () => {
    expect(isGsm("Hello @£$¥èéùìòÇØøÅåΔ_ÆæßÉ ¡ÄÖÑÜ§¿äöñüà ^{}\\[~]|€\n")).toBe(true);
    for (const sign of ["ç", "á", "ê", "`", "“", "–", "я", "🙂", "\u001b", "\t"]) expect(isGsm(sign)).toBe(false);
  });

  it("comes back as it went", () => {
    const signs = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./09:;<=>?¡AZÄÖÑÜ§¿azäöñüà\f^{}\\[~]|€";
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...Array.from(signs))), (all) => {
        expect(decodeGsm(encodeGsm(all.join("")))).toBe(all.join(""));
      }),
    );
    expect(encodeGsm("@a€")).toEqual(Uint8Array.from([0, 0x61, 0x1b, 0x65]));
  });

  it("reads any octets", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => isGsm(decodeGsm(bytes).replaceAll("\u001b", ""))),
    );
    expect(decodeGsm(Uint8Array.from([0x1b, 0x41]))).toBe("A");
    expect(decodeGsm(Uint8Array.from([0x61, 0x1b]))).toBe("a ");
  });
});
