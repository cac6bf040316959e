// Who is let in: the rows of the provider's signing, and forgeries. Everything is signed by the provider's own code.

import { formOf } from "bridgehead/contract";
import { recordingChannel } from "bridgehead/contract/testing";
import * as fc from "fast-check";
import { getExpectedTwilioSignature, validateRequest } from "twilio/lib/webhooks/webhooks.js";
import { describe, expect, it } from "vitest";
import { prove } from "../../../../adapters/sms/twilio/webhook.ts";
import { workedMs } from "../../../support/clock.ts";
import { account, type Fields, openTwilio, person, signed, textForm, token } from "../../../support/sms/providers.ts";

const api = "http://127.0.0.1:9";
const base = "https://bridge.example/channels/test-channel";
const form = textForm("SM1", "hello");

/** An adapter whose public address is `publicUrl`; the status of a request signed for another. */
async function statusAt(publicUrl: string, signedUrl: string, query = ""): Promise<number> {
  const channel = recordingChannel({ publicUrl });
  const { post } = openTwilio(api, {}, channel);
  const response = await post("/inbound", signed(`${publicUrl}/inbound${query}`, form, { signedUrl }));
  expect(channel.messages.length).toBe(response.status === 200 ? 1 : 0);
  return response.status;
}

describe("the signed address", () => {
  const path = "/channels/test-channel";
  it.each([
    ["as configured", "https://h.example", "https://h.example", 200],
    ["signed with :443", "https://h.example", "https://h.example:443", 200],
    ["configured with :443", "https://h.example:443", "https://h.example", 200],
    ["both with :443", "https://h.example:443", "https://h.example:443", 200],
    ["configured with another port, signed without", "https://h.example:8443", "https://h.example", 200],
    ["configured with another port, signed with it", "https://h.example:8443", "https://h.example:8443", 200],
    ["configured without, signed with another port", "https://h.example", "https://h.example:8443", 403],
    ["http configured, https signed", "http://h.example", "https://h.example", 403],
    ["https configured, http signed", "https://h.example", "http://h.example", 403],
    ["another host", "https://h.example", "https://x.example", 403],
  ])("%s", async (_what, configured, signedFor, status) => {
    expect(await statusAt(`${configured}${path}`, `${signedFor}${path}/inbound`)).toBe(status);
  });

  it.each([
    ["a slash at its end", `${base}/inbound/`, 403],
    ["the fragment with the provider's overrides", `${base}/inbound#rc=3&rp=ct,rt,5xx`, 403],
    ["another path of ours", `${base}/status`, 403],
    ["a query that was not sent", `${base}/inbound?a=1`, 403],
    ["nothing but the host", "https://bridge.example", 403],
  ])("signed with %s", async (_what, signedUrl, status) => {
    expect(await statusAt(base, signedUrl)).toBe(status);
  });

  it.each(["?a=1&b=2", "?draft=01hzx7key", "?q=it%27s&e=", "?e=%C3%A9", "?x=a+b"])(
    "with the query %s it came with",
    async (query) => {
      expect(await statusAt(base, `${base}/inbound${query}`, query)).toBe(200);
      expect(await statusAt(base, `${base}/inbound${query}x`, query)).toBe(403);
    },
  );

  it("is stripped of a fragment that stands in the configuration", () => {
    const url = new URL(`${base}/inbound#rc=2`);
    const signature = getExpectedTwilioSignature(token, `${base}/inbound`, { ...form });
    expect(validateRequest(token, signature, url.href, { ...form })).toBe(false);
    expect(prove(url, signature, form, [token])).toEqual({ key: 0, url: "exact" });
  });

  it("may be one of a websocket, port and scheme exact", () => {
    const at = (configured: string, signedFor: string) =>
      prove(new URL(configured), getExpectedTwilioSignature(token, signedFor, {}), {}, [token]) !== null;
    expect(at("wss://h.example/relay", "wss://h.example/relay")).toBe(true);
    expect(at("wss://h.example/relay?a=1", "wss://h.example/relay?a=1")).toBe(true);
    expect(at("wss://h.example/relay", "wss://h.example:443/relay")).toBe(false);
    expect(at("wss://h.example/relay", "https://h.example/relay")).toBe(false);
    expect(at("https://h.example/relay", "wss://h.example/relay")).toBe(false);
    expect(at("https://h.example", "https://h.example/")).toBe(true);
  });
});

describe("the keys", () => {
  it("are a list: each of them opens, another does not, and which one did is logged without it", async () => {
    const keys = ["old-key-000", "new-key-111"];
    const { post, channel } = openTwilio(api, { auth_tokens: keys });
    for (const [index, key] of keys.entries()) {
      const url = `${base}/inbound`;
      const request = signed(url, textForm(`SM${index}`, "hi"), { key });
      expect((await post("/inbound", request)).status).toBe(200);
    }
    expect((await post("/inbound", signed(`${base}/inbound`, form, { key: "third" }))).status).toBe(403);
    const told = channel.logged.filter(({ message }) => message === "request accepted: valid signature");
    expect(told.map(({ fields }) => fields["key"])).toEqual([0, 1]);
    const log = JSON.stringify(channel.logged);
    for (const secret of [...keys, "third", person, "hi"]) expect(log).not.toContain(`"${secret}"`);
  });

  it("say when the address was signed otherwise than configured", async () => {
    const { post, channel } = openTwilio(api);
    const request = signed(`${base}/inbound`, form, {
      signedUrl: "https://bridge.example:443/channels/test-channel/inbound",
    });
    expect((await post("/inbound", request)).status).toBe(200);
    expect(channel.logged.at(-1)?.fields).toMatchObject({ key: 0, url: "variant" });
  });

  it("may be others than the tokens we log in with", async () => {
    const { post } = openTwilio(api, { signing_keys: ["signing-key"] });
    expect((await post("/inbound", signed(`${base}/inbound`, form, { key: "signing-key" }))).status).toBe(200);
    expect((await post("/inbound", signed(`${base}/inbound`, form))).status).toBe(403);
  });
});

describe("what is refused", () => {
  const request = (headers: Record<string, string>, body: string) =>
    new Request(`${base}/inbound`, { method: "POST", headers, body });
  const type = { "content-type": "application/x-www-form-urlencoded" };
  const body = new URLSearchParams(form).toString();
  const signature = getExpectedTwilioSignature(token, `${base}/inbound`, { ...form });

  it.each<[string, Request]>([
    ["no signature", request(type, body)],
    ["an empty signature", request({ ...type, "x-twilio-signature": "" }, body)],
    ["a signature of nothing", request({ ...type, "x-twilio-signature": "AAAA" }, body)],
    ["two signatures in one", request({ ...type, "x-twilio-signature": `${signature}, ${signature}` }, body)],
    ["another case", request({ ...type, "x-twilio-signature": signature.toLowerCase() }, body)],
    [
      "a JSON body",
      request({ "content-type": "application/json", "x-twilio-signature": signature }, JSON.stringify(form)),
    ],
    ["a form called otherwise", request({ "content-type": "text/plain", "x-twilio-signature": signature }, body)],
    ["an empty body", request({ ...type, "x-twilio-signature": signature }, "")],
    ["one field more", request({ ...type, "x-twilio-signature": signature }, `${body}&Extra=1`)],
    ["one field less", request({ ...type, "x-twilio-signature": signature }, body.replace(/&NumMedia=0/, ""))],
    ["an empty field less", request({ ...type, "x-twilio-signature": signature }, body.replace(/&FromCity=/, ""))],
    ["a field with __proto__", request({ ...type, "x-twilio-signature": signature }, `${body}&__proto__=x`)],
    ["a nested name", request({ ...type, "x-twilio-signature": signature }, body.replace("Body=", "Body[a]="))],
    ["broken octets", request({ ...type, "x-twilio-signature": signature }, body.replace("hello", "%ff%fe"))],
  ])("%s", async (_what, forged) => {
    const { post, channel } = openTwilio(api);
    const response = await post("/inbound", forged);
    expect([response.status, channel.calls.length]).toEqual([403, 0]);
    expect(response.headers.get("content-type")).not.toContain("xml");
  });

  it("another account's message, though well signed", async () => {
    const { post, channel } = openTwilio(api);
    const others = { ...form, AccountSid: "AC".padEnd(34, "b") };
    expect((await post("/inbound", signed(`${base}/inbound`, others))).status).toBe(403);
    expect(channel.calls).toEqual([]);
    expect(account).not.toBe(others.AccountSid);
  });
});

describe("what is signed over", () => {
  it.each<[string, Fields]>([
    ["blank values", { Body: "", FromCity: "", AddOns: "" }],
    ["signs of the form's own syntax", { Body: "a+b = c & d % e # f" }],
    ["names with brackets", { "ChannelMetadata[type]": "whatsapp", Body: "x" }],
    ["other scripts and emoji", { Body: "Grüße, 漢字, 🎈👩‍👩‍👧", ProfileName: "Łukasz" }],
    ["line ends", { Body: "one\r\ntwo\nthree" }],
    ["names nobody has heard of", { BrandNewParameter: "1", aLowerCaseOne: "2" }],
  ])("%s", async (_what, more) => {
    const { post, channel } = openTwilio(api);
    const response = await post(
      "/inbound",
      signed(`${base}/inbound`, textForm("SM9", "hello", { NumMedia: "0", ...more })),
    );
    expect(response.status).toBe(200);
    if (more["Body"]) expect(channel.messages[0]?.text).toBe(more["Body"]);
  });

  it("repeated names, as the provider's code counts them", async () => {
    const body = `${new URLSearchParams(form).toString()}&Tag=b&Tag=a&Tag=b`;
    const signature = getExpectedTwilioSignature(token, `${base}/inbound`, { ...form, Tag: ["b", "a", "b"] });
    expect(prove(new URL(`${base}/inbound`), signature, formOf(body), [token])).not.toBeNull();
    const once = getExpectedTwilioSignature(token, `${base}/inbound`, { ...form, Tag: "b" });
    expect(prove(new URL(`${base}/inbound`), once, formOf(body), [token])).toBeNull();
  });
});

it.each([
  ["one field again and again", "a&".repeat(32_000)],
  ["more fields than there are", Array.from({ length: 9000 }, (_, n) => `k${n}=`).join("&")],
])("rejects unsigned requests cheaply: %s", async (_what, body) => {
  const { post } = openTwilio(api);
  const headers = { "content-type": "application/x-www-form-urlencoded", "x-twilio-signature": "forged" };
  const began = workedMs();
  const response = await post("/inbound", new Request(`${base}/inbound`, { method: "POST", headers, body }));
  expect(response.status).toBe(403);
  // The square of the number of fields took eleven seconds.
  expect(workedMs() - began).toBeLessThan(2000);
});

it("parses fields without a sign of equality as fast as others", () => {
  const workOn = (field: string) => {
    const began = workedMs();
    formOf(field.repeat(300_000));
    return workedMs() - began;
  };
  workOn("a=&");
  // The parser of Node.js takes thirty times as long.
  expect(workOn("a&")).toBeLessThan(10 * workOn("a=&"));
});

it("rejects a signed form with more repeats than a provider sends", async () => {
  const { post } = openTwilio(api);
  const status = async (repeats: number) => {
    const body = `${new URLSearchParams(form).toString()}${"&Tag=a".repeat(repeats)}`;
    const headers = {
      "content-type": "application/x-www-form-urlencoded",
      "x-twilio-signature": getExpectedTwilioSignature(token, `${base}/inbound`, { ...form, Tag: ["a"] }),
    };
    return (await post("/inbound", new Request(`${base}/inbound`, { method: "POST", headers, body }))).status;
  };
  expect([await status(900), await status(1000)]).toEqual([200, 403]);
});

it("lets none of five thousand mutations of a signed request in", async () => {
  const { post, channel } = openTwilio(api);
  const url = `${base}/inbound`;
  const good = signed(url, form);
  const [signature, body] = [good.headers.get("x-twilio-signature") ?? "", await good.text()];
  let tried = 0;
  const swap = (text: string, at: number, character: string) =>
    text.slice(0, at % text.length) + character + text.slice((at % text.length) + 1);
  // What still says the same to a form's reader is no forgery: `%2B` and `%2b`, or a swapped order of pairs.
  const pairsOf = (text: string) =>
    [...new URLSearchParams(text)]
      .map(([name, value]) => `${name}${value}`)
      .sort()
      .join("");
  const character = fc.constantFrom(...Array.from("abcXYZ0189+/=&%_- \u00e9"));
  const mutation = fc.record({ what: fc.nat(4), at: fc.nat(10_000), character });
  await fc.assert(
    fc.asyncProperty(fc.array(mutation, { minLength: 1, maxLength: 4 }), async (mutations) => {
      let [mutatedBody, mutatedSignature, query] = [body, signature, ""];
      for (const { what, at, character } of mutations) {
        if (what === 0) mutatedBody = swap(mutatedBody, at, character);
        if (what === 1) mutatedBody += `&${character}=${at}`;
        if (what === 2) mutatedSignature = swap(mutatedSignature, at, character);
        if (what === 3) query += `${query === "" ? "?" : "&"}${encodeURIComponent(character)}=${at}`;
        if (what === 4) mutatedBody = mutatedBody.split("&").slice(0, -1).join("&");
      }
      const same = pairsOf(mutatedBody) === pairsOf(body) && mutatedSignature === signature && query === "";
      fc.pre(!same && /^[\x20-\x7e]*$/.test(mutatedSignature));
      tried += 1;
      const headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-twilio-signature": mutatedSignature,
      };
      const response = await post("/inbound", new Request(url + query, { method: "POST", headers, body: mutatedBody }));
      expect(response.status).toBe(403);
    }),
    { numRuns: 5000, seed: 20261121 },
  );
  expect(tried).toBeGreaterThanOrEqual(5000);
  expect(channel.calls).toEqual([]);
  expect((await post("/inbound", signed(url, form))).status).toBe(200);
});
