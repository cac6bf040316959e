// Texts through Telnyx: what proves a webhook, what it tells, and what its answers mean.

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { type Attempt, ed25519Key, type HttpRoute, type SendOutcome, sendKey } from "bridgehead/contract";
import { noFiles, recordingChannel, wallClock } from "bridgehead/contract/testing";
import * as fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import sms from "../../../adapters/sms/index.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { serve } from "../../support/machine/network.ts";
import {
  apiKey,
  attempt,
  event,
  finalized,
  publicKey,
  received,
  replyTo,
  startTelnyx,
  type TelnyxFault,
  webhook,
} from "../../support/sms/providers.ts";

const other = generateKeyPairSync("ed25519");
const otherPublic = other.publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64");

function fixture(block: object = {}, telnyx: object = {}, ahead = 0) {
  const channel = recordingChannel({ clock: wallClock(ahead) });
  const settings = sms.config.parse({
    provider: "telnyx",
    number: "+15550100",
    ...block,
    telnyx: { api_key: apiKey, public_keys: [publicKey], ...telnyx },
  });
  const adapter = sms.create(channel, settings);
  const post = async (request: Request, path = "/inbound"): Promise<number> => {
    const route = adapter.routes?.find((one): one is HttpRoute => one.kind === "http" && one.path === path);
    return (await route?.handle(request))?.status ?? 404;
  };
  return { adapter, channel, post, url: channel.url("/inbound") };
}

const seconds = () => Math.floor(Date.now() / 1000);

describe("the proof", () => {
  it("holds for the body and the time that were signed, with any of the keys", async () => {
    const { post, channel, url } = fixture({}, { public_keys: [publicKey, otherPublic] });
    expect(await post(webhook(url, received("a", "hello")))).toBe(200);
    expect(await post(webhook(url, received("b", "hello"), { key: other.privateKey }))).toBe(200);
    expect(channel.messages.map(({ id }) => id)).toEqual(["a", "b"]);
  });

  it("does not hold with another key, another body, another time, or without", async () => {
    const { post, channel, url } = fixture();
    const good = () => webhook(url, received("a", "hello"));
    const changed = (change: (headers: Headers) => void, body = received("a", "hello")) => {
      const headers = new Headers(good().headers);
      change(headers);
      return new Request(url, { method: "POST", headers, body });
    };
    const bad = [
      webhook(url, received("a", "hello"), { key: other.privateKey }),
      changed(() => undefined, `${received("a", "hello")} `),
      changed((headers) => headers.set("telnyx-timestamp", String(seconds() - 1))),
      changed((headers) => headers.delete("telnyx-timestamp")),
      changed((headers) => headers.delete("telnyx-signature-ed25519")),
      changed((headers) => headers.set("telnyx-signature-ed25519", "")),
      changed((headers) => headers.set("telnyx-signature-ed25519", "AAAA")),
      changed((headers) => headers.set("telnyx-timestamp", "1e9")),
      new Request(url, { method: "POST", body: "{}" }),
      new Request(url, { method: "POST" }),
    ];
    for (const request of bad) expect(await post(request)).toBe(403);
    expect(channel.calls).toEqual([]);
    expect(await post(good())).toBe(200);
  });

  it("is of its time: five minutes old or ahead and no more", async () => {
    const { post, url } = fixture();
    for (const [at, status] of [
      [-290, 200],
      [290, 200],
      [-310, 403],
      [310, 403],
      [-100_000, 403],
    ] as const)
      expect(await post(webhook(url, received(`t${at}`, "hello"), { at: seconds() + at })), `${at} s`).toBe(status);
    const later = fixture({}, {}, 600_000);
    expect(await later.post(webhook(url, received("x", "replayed"))), "by our clock").toBe(403);
    const forged = webhook(url, received("x", "forged"), { key: other.privateKey });
    expect(await later.post(forged, "/status")).toBe(403);
    expect(later.channel.logged).toMatchObject([
      {
        level: "warn",
        fields: { path: "/inbound", reason: expect.stringContaining("time of this machine") as string },
      },
      { level: "warn", fields: { path: "/status", reason: "its signature does not hold" } },
    ]);
  });

  it("does not hold for thousands of changed requests", async () => {
    const { post, channel, url } = fixture();
    const body = Buffer.from(received("a", "hello"));
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("body", "stamp", "signature"),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        async (where, at, by) => {
          const good = webhook(url, body.toString());
          const headers = new Headers(good.headers);
          const flip = (bytes: Buffer) =>
            Buffer.from(bytes.map((byte, index) => (index === at % bytes.length ? byte ^ by : byte)));
          if (where === "stamp") headers.set("telnyx-timestamp", String(seconds() - 1 - (at % 280)));
          if (where === "signature") {
            const signature = Buffer.from(headers.get("telnyx-signature-ed25519") ?? "", "base64");
            headers.set("telnyx-signature-ed25519", flip(signature).toString("base64"));
          }
          const bytes = new Uint8Array(where === "body" ? flip(body) : body);
          return (await post(new Request(url, { method: "POST", headers, body: bytes }))) === 403;
        },
      ),
      { numRuns: 3000 },
    );
    expect(channel.calls).toEqual([]);
  });

  it("needs a key that is one", () => {
    expect(ed25519Key(publicKey)?.asymmetricKeyType).toBe("ed25519");
    for (const wrong of ["", "abc", Buffer.alloc(31).toString("base64"), "-----BEGIN PUBLIC KEY-----"])
      expect(
        sms.config.safeParse({
          provider: "telnyx",
          number: "+15550100",
          telnyx: { api_key: "k", public_keys: [wrong] },
        }).success,
      ).toBe(false);
  });
});

describe("a webhook", () => {
  it("delivers a text once, on any of the addresses", async () => {
    const { post, channel, url } = fixture();
    const body = received("m-1", "Grüße 🙂", {
      media: [{ url: "https://media.example/a.jpg", content_type: "image/jpeg", size: 12 }],
    });
    for (const path of ["/inbound", "/inbound-fallback", "/status"])
      expect(await post(webhook(url, body), path)).toBe(200);
    expect(channel.messages).toMatchObject([
      {
        id: "m-1",
        from: { address: "+15550177" },
        to: [{ address: "+15550100" }],
        text: "Grüße 🙂",
        sentAt: new Date("2026-11-21T12:00:00.000Z"),
        attachments: [
          {
            mediaType: "image/jpeg",
            size: 12,
            ref: { url: "https://media.example/a.jpg", mediaType: "image/jpeg" },
          },
        ],
      },
    ]);
    expect(channel.calls.length).toBe(3);
  });

  it.each([
    ["", "Where is my parcel?", "Where is my parcel?", undefined],
    ["STOP", "My\nparcel", "STOP", { subject: "My parcel" }],
    ["hi", " NoSubject ", "hi", undefined],
    ["hi", "(no subject)", "hi", undefined],
    ["hi", null, "hi", undefined],
  ])("with the text %j and the subject %j is %j", async (text, subject, words, notes) => {
    const { post, channel, url } = fixture();
    await post(webhook(url, received("m-1", text, { type: "MMS", subject })));
    expect(channel.messages[0]).toMatchObject({ text: words });
    expect(channel.messages[0]?.notes).toEqual(notes);
    expect(channel.messages[0]?.refusal).toBeUndefined();
  });

  it("a hundred times at once is one text", async () => {
    const { post, channel, url } = fixture();
    const all = await Promise.all(Array.from({ length: 100 }, () => post(webhook(url, received("m-1", "hello")))));
    expect(new Set(all)).toEqual(new Set([200]));
    expect(channel.messages.length).toBe(1);
  });

  it("reports the keyword that Telnyx answered itself", async () => {
    const { post, channel, url } = fixture({ opt_out: { stop_text: "You are out." } });
    await post(webhook(url, received("m-1", "Arrêt svp", { autoresponse_type: "STOP" })));
    await post(webhook(url, received("m-2", "stop")));
    expect(channel.messages.map(({ consent }) => consent)).toEqual([
      { word: "stop" },
      { word: "stop", answer: "You are out." },
    ]);
  });

  it("reports the status of a text, with our key from the signed address", async () => {
    const { post, channel, url } = fixture();
    const callback = `${channel.url("/status").href}?draft=abc123`;
    const failed = { errors: [{ code: "40001", title: "Not routable", detail: "to +15550177" }] };
    for (const body of [
      finalized("o-1", "sent", { webhook_url: callback }),
      finalized("o-1", "delivered", { webhook_url: callback }),
      finalized("o-2", "delivery_failed", failed),
      finalized("o-3", "sending_failed", { errors: [{ code: "40014", title: "Expired in queue" }] }),
      finalized("o-6", "delivery_failed", { errors: [{ code: "40300", title: "Blocked by STOP" }] }),
      finalized("o-4", "delivery_unconfirmed", { webhook_url: "not an address" }),
      finalized("o-5", "delivered", { webhook_url: `${channel.url("/status").href}?draft=Not%20Ours` }),
    ])
      expect(await post(webhook(url, body))).toBe(200);
    expect(channel.stored).toMatchObject([
      { id: "o-1/sent", about: { key: "abc123", sent: ["o-1"] }, state: "accepted" },
      { id: "o-1/delivered", about: { key: "abc123", sent: ["o-1"] }, state: "delivered" },
      { id: "o-2/delivery_failed", about: { sent: ["o-2"] }, state: "failed", permanent: true },
      { id: "o-3/sending_failed", state: "failed", permanent: false, code: "40014" },
      { id: "o-6/delivery_failed", state: "failed", permanent: true, code: "opted-out" },
      { id: "o-4/delivery_unconfirmed", about: { sent: ["o-4"] }, state: "accepted" },
      { id: "o-5/delivered", about: { sent: ["o-5"] } },
    ]);
    expect(channel.stored[2]).toHaveProperty("detail", expect.stringContaining("40001 Not routable"));
    expect(channel.stored[2]).toHaveProperty("detail", expect.not.stringContaining("15550177"));
  });

  it("of another kind is acknowledged and ignored; a known one that fails to parse is requested again", async () => {
    const { post, channel, url } = fixture();
    expect(await post(webhook(url, event("10dlc.campaign.update", { any: "thing" })))).toBe(200);
    for (const body of [
      "{}",
      "no json",
      "[]",
      received("", "hello"),
      event("message.received", { id: "x" }),
      event("message.sent", { id: "x" }),
    ])
      await expect(post(webhook(url, body))).rejects.toThrow(/./);
    expect(channel.calls).toEqual([]);
  });
});

describe("a picture", () => {
  async function fetched(ref: object, block: object): Promise<Buffer> {
    const { adapter } = fixture(block);
    const chunks: Uint8Array[] = [];
    for await (const chunk of adapter.open?.(ref as never, AbortSignal.timeout(60_000)) ?? []) chunks.push(chunk);
    return Buffer.concat(chunks);
  }
  const picture = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.alloc(3000, 7)]);

  it("is fetched without our key, up to the size that is allowed", async () => {
    const logins: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      logins.push(request.headers.authorization);
      response.end(picture);
    });
    const url = `${await serve(server)}/a.png`;
    const ref = { url, mediaType: "image/png" };
    const local = { api_url: "http://127.0.0.1:9" };
    expect(await fetched(ref, local)).toEqual(picture);
    expect(logins).toEqual([undefined]);
    await expect(fetched(ref, { ...local, media: { max_size: "2KB" } })).rejects.toThrow(/larger than/);
    await expect(fetched(ref, {}), "from this machine, said by the real Telnyx").rejects.toThrow(/https/);
  });

  it("is never fetched from a private network", async () => {
    for (const host of ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "localhost"])
      await expect(fetched({ url: `https://${host}/a.png`, mediaType: "image/png" }, {})).rejects.toThrow(
        /not a public one/,
      );
  });
});

describe("a text", () => {
  it("waits for no check of the key: its connections are the capacity that is reported", async () => {
    let checks = 0;
    const server = createServer((request, response) => {
      if (request.method === "GET") checks += 1;
      else response.end(JSON.stringify({ data: { id: "m1" } }));
    });
    const { adapter } = fixture({ api_url: await serve(server) });
    const free = adapter.outbound?.capacity?.() ?? 0;
    const end = new AbortController();
    const probes = Array.from({ length: free }, async () => adapter.probe?.(end.signal));
    await expect.poll(() => checks).toBeGreaterThan(0);
    const [draft] = adapter.outbound?.compose(replyTo("+15550177", "Not held up.")) ?? [];
    if (draft === undefined) throw new Error("nothing to send");
    const sending = adapter.outbound?.send(draft, {
      key: sendKey("k1"),
      number: 1,
      signal: AbortSignal.timeout(60_000),
      crossing: () => Promise.resolve(),
      read: noFiles,
    });
    const first = await Promise.race([sending, Promise.allSettled(probes)]);
    end.abort();
    await Promise.allSettled(probes);
    expect(first).toMatchObject({ kind: "sent", id: "m1" });
  });
});

type Telnyx = Awaited<ReturnType<typeof startTelnyx>>;
let telnyx: Telnyx | null = null;
afterEach(async () => {
  await telnyx?.close();
  telnyx = null;
});

async function send(fault: TelnyxFault, block: object = {}, more: object = {}) {
  telnyx = await startTelnyx();
  telnyx.fault(fault);
  const { adapter, channel } = fixture({ api_url: telnyx.url, ca: telnyx.ca, ...block }, more);
  const text = "**Hello**\n\n![a cat](https://pictures.example/cat.png)";
  const [draft] = adapter.outbound?.compose(replyTo("+15550177", text, { key: sendKey("kk") })) ?? [];
  const attempt: Attempt = {
    key: sendKey("kk"),
    number: 1,
    signal: AbortSignal.timeout(60_000),
    crossing: () => Promise.resolve(),
    read: noFiles,
  };
  const outcome = (await adapter.outbound?.send(draft as never, attempt)) as SendOutcome;
  await adapter.close?.(AbortSignal.timeout(60_000));
  return { outcome, channel, telnyx };
}

const missing = await need("openssl", "/usr/bin/openssl");
describeReal("a text", missing, () => {
  it("is posted with all that Telnyx needs, and our key in the address it reports to", async () => {
    const {
      outcome,
      telnyx: peer,
      channel,
    } = await send("none", { media: { send: true } }, { messaging_profile: "profile-1" });
    expect(outcome).toMatchObject({ kind: "sent", id: peer.posted[0]?.id });
    expect(peer.posted[0]).toMatchObject({
      from: "+15550100",
      to: "+15550177",
      messaging_profile_id: "profile-1",
      media_urls: ["https://pictures.example/cat.png"],
      webhook_url: `${channel.url("/status").href}?draft=kk`,
      webhook_failover_url: `${channel.url("/status").href}?draft=kk`,
      use_profile_webhooks: false,
    });
    expect(peer.posted[0]?.text).toMatch(/^Hello/);
  });

  it.each([
    ["in Latin letters", "a"],
    ["in Cyrillic letters", "я"],
    ["of signs that count twice", "€"],
  ])("%s is never longer than the ten segments that carriers take", async (_, sign) => {
    telnyx = await startTelnyx();
    const { adapter } = fixture({ api_url: telnyx.url, ca: telnyx.ca, split: { target: 1600 } });
    const drafts = adapter.outbound?.compose(replyTo("+15550177", `${sign.repeat(9)} `.repeat(200))) ?? [];
    for (const draft of drafts) expect(await adapter.outbound?.send(draft, attempt())).toMatchObject({ kind: "sent" });
    expect(drafts.length).toBeGreaterThan(1);
    await adapter.close?.(AbortSignal.timeout(60_000));
  });

  it("waits after one was accepted and lost at the limit of a carrier", async () => {
    telnyx = await startTelnyx();
    const { adapter, post, url } = fixture({ api_url: telnyx.url, ca: telnyx.ca });
    const sent = async (text: string) => {
      const [draft] = adapter.outbound?.compose(replyTo("+15550177", text)) ?? [];
      return adapter.outbound?.send(draft as never, attempt());
    };
    expect((await sent("One."))?.kind).toBe("sent");
    const errors = [{ code: "40018", title: "AT&T 10DLC sending limit reached" }];
    await post(webhook(url, finalized("m1", "delivery_failed", { errors })));
    expect(await sent("Two.")).toMatchObject({ kind: "deferred", scope: "sender", cause: "rate" });
    await post(webhook(url, finalized("m2", "delivered")));
    expect((await sent("Three."))?.kind).toBe("sent");
    await adapter.close?.(AbortSignal.timeout(60_000));
  });

  const error = (code: string, title = "t") => ({ errors: [{ code, title, detail: "about +15550177" }] });
  const answers: readonly (readonly [number, unknown, object, string | null])[] = [
    [
      400,
      error("40300", "Blocked due to STOP message"),
      { kind: "refused", code: "opted-out", scope: "recipient" },
      null,
    ],
    [400, error("40310"), { kind: "refused", code: "40310", scope: "recipient" }, null],
    [400, error("40305"), { kind: "deferred", scope: "sender", cause: "set-up" }, "degraded"],
    [403, error("10010"), { kind: "deferred", scope: "channel", cause: "login" }, "unauthorized"],
    [403, error("20012"), { kind: "deferred", scope: "channel", cause: "set-up" }, "degraded"],
    [401, {}, { kind: "deferred", scope: "channel" }, "unauthorized"],
    [400, error("40309"), { kind: "deferred", scope: "recipient" }, "degraded"],
    [400, error("40322"), { kind: "refused", code: "40322" }, null],
    [422, error("40318"), { kind: "deferred", scope: "sender", cause: "rate" }, null],
    [429, {}, { kind: "deferred", scope: "channel", retryAfterMs: 7000 }, null],
    [422, error("99999"), { kind: "refused", code: "99999" }, null],
    [404, "not even an object", { kind: "refused", code: "404" }, null],
    [500, error("10007"), { kind: "unknown" }, null],
    [502, error("40310"), { kind: "unknown" }, null],
    [200, { data: {} }, { kind: "unknown" }, null],
  ];
  it.each(answers)("answered %i %j is an outcome", async (status, body, wanted, state) => {
    const headers: Record<string, string> = status === 429 ? { "retry-after": "7" } : {};
    const { outcome, channel } = await send({ status, body, headers });
    expect(outcome).toMatchObject(wanted);
    expect(JSON.stringify(outcome), "no number in a reason").not.toContain("15550177");
    expect(channel.statuses.at(-1)?.state ?? null).toBe(status === 200 ? "ready" : state);
  });
});
