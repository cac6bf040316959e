// One written form for everything a text can come from or go to.

import { getCountries, getExampleNumber } from "libphonenumber-js/min";
import examples from "libphonenumber-js/mobile/examples";
import { describe, expect, it } from "vitest";
import { canonicalNumber, countriesOf, isCountry } from "../../../adapters/sms/numbers.ts";

describe("numbers", () => {
  const same: readonly (readonly [string, string])[] = [
    ["+15550100", "+15550100"],
    ["+1 (555) 010-0123", "+15550100123"],
    ["+49 30 901820", "+4930901820"],
    ["0049 30 901820", "+4930901820"],
    ["tel:+44-20-7946-0018", "+442079460018"],
    ["+447700900123", "+447700900123"],
    ["whatsapp:+15550100", "whatsapp:+15550100"],
    ["WhatsApp: +49 30 901820", "whatsapp:+4930901820"],
    ["rcs:+4930901820", "rcs:+4930901820"],
    ["rcs:brand_agent", "rcs:brand_agent"],
    ["messenger:1029384756", "messenger:1029384756"],
    ["12345", "12345"],
    ["911", "911"],
    ["AMAZON", "AMAZON"],
    ["Bank 24", "Bank 24"],
  ];
  it.each(same)("%j is %s", (text, number) => {
    expect(canonicalNumber(text)).toBe(number);
    expect(canonicalNumber(number)).toBe(number);
  });

  it("writes numbers of every country as the complete tables do", () => {
    for (const country of getCountries()) {
      const example = getExampleNumber(country, examples);
      for (const text of [example?.number ?? "", example?.formatInternational() ?? ""])
        expect(canonicalNumber(text)).toBe(example?.number);
      expect(countriesOf(example?.number ?? "")).toContain(country);
    }
  });

  it.each([
    "",
    " ",
    "+",
    "+0123456789",
    "whatsapp:",
    "whatsapp:bob",
    "rcs:a b;c",
    "+49 30 90182O",
    "+1555010012345678",
    "a name too long for it",
    "call +15550100 now please",
    "1;2",
    "<script>",
    "ann@example.com",
    "sms:\u0000",
  ])("%j is invalid", (text) => {
    expect(canonicalNumber(text)).toBeNull();
  });

  it("reads national numbers with a configured country", () => {
    expect(canonicalNumber("030 901820", "DE")).toBe("+4930901820");
    expect(canonicalNumber("(202) 555-0123", "US")).toBe("+12025550123");
    expect(canonicalNumber("whatsapp:030 901820", "DE")).toBe("whatsapp:+4930901820");
    expect(canonicalNumber("+442079460018", "DE")).toBe("+442079460018");
    expect(canonicalNumber("030 901820")).toBeNull();
  });

  it("knows countries", () => {
    expect([isCountry("DE"), isCountry("US"), isCountry("XX"), isCountry("de")]).toEqual([true, true, false, false]);
  });
});
