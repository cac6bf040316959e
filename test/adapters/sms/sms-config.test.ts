// The block of an SMS channel: what it must have for each provider, and how numbers are written.

import { recordingChannel } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";
import sms from "../../../adapters/sms/index.ts";
import { account, ours, type Settings, settings, token } from "../../support/sms/providers.ts";

/** The invalid paths of a block, each with its error message. */
function wrong(block: Record<string, unknown>): string[] {
  const result = sms.config.safeParse(block);
  return result.success ? [] : result.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

const good = settings("https://api.twilio.com") as Record<string, unknown>;
const without = (...keys: string[]) => Object.fromEntries(Object.entries(good).filter(([key]) => !keys.includes(key)));

it("lets opt-outs concern one number, unless a messaging service selects it", () => {
  const ownAddressOf = (block: Record<string, unknown>) =>
    sms.create(recordingChannel(), sms.config.parse(block)).outbound?.ownAddress;
  expect(ownAddressOf(good)).toBe(ours);
  expect(ownAddressOf({ ...good, messaging_service: "MG1" })).toBeUndefined();
  expect(ownAddressOf({ ...without("number"), messaging_service: "MG1" })).toBeUndefined();
});

describe("a block", () => {
  it("needs an account, its tokens and a number; everything else has a default", () => {
    const block = sms.config.parse({ account_sid: account, auth_tokens: [token], number: ours });
    expect(block).toMatchObject({
      provider: "twilio",
      validity: 14_400_000,
      status_callback: true,
      media: { send: false, max_size: 5_000_000 },
      split: { target: 320, max: 1600, numbering: "(1/2)" },
      backfill: { every: 300_000, overlap: 600_000, after: 30_000 },
      own_numbers: [],
      ignore_short_codes: false,
    });
    expect(block.opt_out.languages).toContain("de");
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ["no account", without("account_sid"), /^account_sid: provider: twilio needs account_sid$/],
    ["no token", without("auth_tokens"), /^auth_tokens: provider: twilio needs auth_tokens$/],
    ["an empty list of tokens", { ...good, auth_tokens: [] }, /^auth_tokens: /],
    ["an empty token", { ...good, auth_tokens: [""] }, /^auth_tokens\.0: /],
    ["no number", without("number"), /^number: provider: twilio needs number$/],
    ["a number that is none", { ...good, number: "call us!" }, /^number: expected a number/],
    ["a national number", { ...good, number: "(030) 1234" }, /^number: expected a number/],
    ["an address that is none", { ...good, api_url: "api.twilio.com" }, /^api_url: /],
    ["an address of another protocol", { ...good, api_url: "ftp://api.twilio.com" }, /^api_url: /],
    ["a life of a text above ten hours", { ...good, validity: "11h" }, /^validity: must be between/],
    ["a country that is none", { ...good, country: "XX" }, /^country: expected a country/],
    ["numbering without numbers", { ...good, split: { numbering: "(a/b)" } }, /^split\.numbering: /],
    ["parts that aim too high", { ...good, split: { target: 900, max: 800 } }, /^split\.target: must not be above/],
    ["telnyx without its block", { ...good, provider: "telnyx" }, /^telnyx: provider: telnyx needs telnyx$/],
    ["smpp without its block", { ...good, provider: "smpp" }, /^smpp: provider: smpp needs smpp$/],
    [
      "signalwire without an address",
      { ...without("api_url"), provider: "signalwire" },
      /^api_url: provider: signalwire/,
    ],
    ["a misspelt key", { ...good, auth_token: "x" }, /^: Unrecognized key/],
    ["a misspelt key further in", { ...good, opt_out: { stop: "x" } }, /^opt_out: Unrecognized key/],
  ])("with %s is refused", (_what, block, words) => {
    expect(wrong(block)).toEqual([expect.stringMatching(words)]);
  });

  it.each([
    ["+1 (555) 010-0100", "+15550100100"],
    ["whatsapp:+1 555 0100", "whatsapp:+15550100"],
    ["72345", "72345"],
  ])("takes the number %s as %s", (written, canonical) => {
    expect(sms.config.parse({ ...good, number: written }).number).toBe(canonical);
  });

  it("may name a service in place of a number", () => {
    expect(wrong({ ...without("number"), messaging_service: "MG1" })).toEqual([]);
  });

  it("marks every secret as one", () => {
    const shape = JSON.stringify(sms.config.toJSONSchema({ io: "input", unrepresentable: "any" }));
    expect(shape.match(/"secret":true/g)?.length).toBeGreaterThanOrEqual(5);
  });
});

describe("the definition", () => {
  it("says what an address is that can be written to", () => {
    expect(sms.address?.("+1 (555) 010-0100")).toBe("+15550100100");
    expect(sms.address?.("whatsapp:+49 30 1234567")).toBe("whatsapp:+49301234567");
    for (const nobody of ["", "Anna", "anna@example.net", "12", "call us!"]) expect(sms.address?.(nobody)).toBeNull();
  });

  it("has the core's defaults of a conversation by text", () => {
    expect(sms.traits.defaults).toMatchObject({ debounce: "3s" });
    expect([sms.traits.conversations, sms.traits.platform]).toEqual(["person", "sms"]);
  });

  it("makes every provider from a block alone", async () => {
    const signalwire: Settings = {
      ...good,
      provider: "signalwire",
      api_url: "https://x.signalwire.com/api/laml",
    };
    for (const block of [good, signalwire]) {
      const adapter = sms.create(recordingChannel(), sms.config.parse(block));
      expect(adapter.routes?.map(({ path }) => path)).toEqual(["/inbound", "/inbound-fallback", "/status"]);
      await adapter.close?.(AbortSignal.timeout(60_000));
    }
  });
});
