// Texts that are typed object and carry text: every form seen, or likely to be.

import { expect, it } from "vitest";
import { plainText, textOrObject } from "../../src/wire/record.ts";

it.each([
  ["Hello", "Hello"],
  ["  Hello\n", "Hello"],
  ["", null],
  [null, null],
  [undefined, null],
  [{}, null],
  [{ text: "Hello" }, "Hello"],
  [{ value: "Hello", id: "x" }, "Hello"],
  [{ de: "Hallo", en: "Hello" }, "Hello"],
  [{ de: "Hallo", fr: "Bonjour" }, "Hallo"],
  [{ text: "", de: "Hallo" }, "Hallo"],
  [{ en: " ", "en-US": "Hello" }, "Hello"],
  [{ text: { de: "Hallo", en: "Hello" } }, "Hello"],
  [{ text: { value: { en: "too deep" } } }, null],
  [{ enabled: true, size: 7, list: ["a"] }, null],
  [{ enabled: true, text: "Hello" }, "Hello"],
  [{ enabled: false, text: "Hello" }, null],
  [{ id: "sig_1", name: "Standard", updatedAt: "2026-01-01" }, null],
  [{ type: "doc", content: [{ type: "text", text: "Hello" }] }, null],
  [{ html: "<p>Hello</p>", "pt-BR": "Oi" }, "Oi"],
])("%j is %j", (value, expected) => {
  expect(plainText(value)).toBe(expected);
});

it("refuses what is neither", () => {
  expect([7, true, null].map((value) => textOrObject.safeParse(value).success)).toEqual([false, false, false]);
});
