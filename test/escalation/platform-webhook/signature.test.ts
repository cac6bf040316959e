// The signature of a platform webhook (Standard Webhooks), verified without a request.

import { describe, expect, it } from "vitest";
import { isSigned, isSignedBy } from "../../../src/escalation/platform-webhook/decide.ts";

// The example of the Standard Webhooks libraries.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const signed = {
  "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
  "webhook-timestamp": "1614265330",
  "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};
const signature = signed["webhook-signature"];
const body = '{"test": 2432232314}';
const at = 1_614_265_330_000;

it("is looked for when all three headers are there", () => {
  expect(isSigned(new Headers(signed))).toBe(true);
  for (const missing of Object.keys(signed)) {
    const headers = new Headers(signed);
    headers.delete(missing);
    expect(isSigned(headers)).toBe(false);
  }
});

describe("a signature", () => {
  it.each<[string, boolean, Partial<typeof signed>, { secrets?: string[]; text?: string; now?: number }]>([
    ["is accepted", true, {}, {}],
    ["is accepted without the prefix of the secret", true, {}, { secrets: [secret.slice("whsec_".length)] }],
    ["of one of several secrets is accepted", true, {}, { secrets: [other, secret] }],
    ["among others is accepted", true, { "webhook-signature": `v1a,x v1,AAAA ${signature}` }, {}],
    ["after sixteen others is not read", false, { "webhook-signature": `${"v1,AAAA ".repeat(16)}${signature}` }, {}],
    ["of another secret is refused", false, {}, { secrets: [other] }],
    ["is refused without a secret", false, {}, { secrets: [] }],
    ["of another body is refused", false, {}, { text: `${body} ` }],
    ["of another id is refused", false, { "webhook-id": "msg_other" }, {}],
    ["of another second is refused", false, { "webhook-timestamp": "1614265331" }, {}],
    ["of another version is refused", false, { "webhook-signature": signature.replace("v1,", "v2,") }, {}],
    ["is refused without its version", false, { "webhook-signature": signature.slice("v1,".length) }, {}],
    ["is refused without a time", false, { "webhook-timestamp": "" }, { now: 0 }],
    ["is accepted up to the tolerance after its time", true, {}, { now: at + 5000 }],
    ["is accepted up to the tolerance before its time", true, {}, { now: at - 5000 }],
    ["is refused later", false, {}, { now: at + 5001 }],
    ["is refused earlier", false, {}, { now: at - 5001 }],
  ])("%s", (_what, is, headers, { secrets = [secret], text = body, now = at }) => {
    const given = new Headers({ ...signed, ...headers });
    expect(isSignedBy(secrets, given, Buffer.from(text), now, 5000)).toBe(is);
  });

  it.each(Object.keys(signed))("is refused without %s", (missing) => {
    const headers = new Headers(signed);
    headers.delete(missing);
    expect(isSignedBy([secret], headers, Buffer.from(body), at, 5000)).toBe(false);
  });
});
