// What becomes of a text, its recipient and the channel after each of Twilio's error codes.

import { describe, expect, it } from "vitest";
import { isPermanent, type TextClass } from "../../../../adapters/sms/outcomes.ts";
import { standardTiming } from "../../../../adapters/sms/timing.ts";
import { classOfText, outcomeOf } from "../../../../adapters/sms/twilio/client.ts";

const table: Readonly<Partial<Record<TextClass, readonly number[]>>> = {
  recipient: [21211, 21265, 21268, 21614, 21635, 30005, 30006],
  "opted-out": [21610],
  login: [20003],
  account: [30002, 30037],
  "set-up": [21212, 21606, 21659, 21661, 21709, 30032, 30033, 30034, 30035],
  reach: [21408, 21605, 21612],
  content: [21617, 30007, 30450, 30610, 30640],
  rate: [20429, 63038],
  "sender-rate": [21611, 30022, 30023, 30027, 63017, 63018],
  unreached: [30001, 30003, 30008],
  expired: [30036],
  ambiguous: [20500],
};
const codes = Object.entries(table).flatMap(([kind, all]) => all.map((code) => [code, kind as TextClass] as const));
const error = (code: number) => ({ status: 400, code, message: "no", retryAfterMs: null });

describe("the error code", () => {
  it.each(codes)("%i has the class %s", (code, kind) => {
    expect(classOfText(code)).toBe(kind);
  });

  it("marks the recipient exactly when no text can ever reach it, or it opted out", () => {
    for (const [code, kind] of codes) {
      const isFinal = kind === "recipient" || kind === "opted-out";
      const outcome = outcomeOf(error(code), standardTiming);
      const marks = outcome.kind === "refused" && outcome.scope === "recipient";
      expect([isPermanent(classOfText(code)), marks], String(code)).toEqual([isFinal, isFinal]);
    }
  });

  it("of an opt-out alone suppresses at once; others count as bounces", () => {
    for (const [code, kind] of codes) {
      const outcome = outcomeOf(error(code), standardTiming);
      if (outcome.kind === "refused") expect(outcome.code === "opted-out", String(code)).toBe(kind === "opted-out");
    }
  });

  it("of a closed WhatsApp window refuses this text only", () => {
    for (const code of [63003, 63016])
      expect(outcomeOf(error(code), standardTiming)).toEqual({
        kind: "refused",
        code: "window-closed",
        reason: expect.stringContaining(String(code)),
      });
  });
});
