// Texts on their way to a message centre (npm's smpp server), and what becomes of them.

import { recordingChannel } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";
import { describeReal, need } from "../../../support/machine/debian.ts";
import { certificate } from "../../../support/machine/network.ts";
import { bound, boundSmpp, openSmpp, spoken, startSmsc } from "../../../support/sms/smpp.ts";

const long = "A sentence of some length, with words. ".repeat(12).trim();

describe("a text", () => {
  it("goes out in the alphabet it needs, and npm's smpp reads it", async () => {
    const { centre, fixture } = await boundSmpp({}, { run: false });
    for (const text of ["Grüße für [dich] @home: 5€ ~ {x}\\", "Привет 🙂", "ça va, n'est-ce pas?"]) {
      const [outcome] = await fixture.send(text);
      expect(outcome?.kind).toBe("sent");
      expect(centre.taken.at(-1)?.text).toBe(text);
    }
    expect(centre.taken.map(({ pdu }) => pdu.data_coding)).toEqual([0, 8, 8]);
    const [{ pdu }] = centre.taken as [(typeof centre.taken)[number]];
    expect(pdu).toMatchObject({
      source_addr: "15550100",
      source_addr_ton: 1,
      destination_addr: "15550177",
      dest_addr_ton: 1,
    });
    expect(pdu.registered_delivery).toBe(1);
    expect(centre.binds, "one line for all of them").toEqual(["bind_transmitter"]);
  });

  it("that is long goes out in parts that say so, and has one id for each", async () => {
    const { centre, fixture } = await boundSmpp({}, { run: false });
    const [outcome] = await fixture.send(long);
    expect(outcome).toEqual({ kind: "sent", id: "m4", also: ["m3", "m2", "m1"] });
    const headers = centre.taken.map(({ pdu }) => [...(pdu.short_message.udh?.[0] ?? [])]);
    const reference = headers[0]?.[2];
    expect(headers).toEqual([1, 2, 3, 4].map((part) => [0, 3, reference, 4, part]));
    expect(centre.taken.map(({ text }) => text).join("")).toBe(long);
    expect(centre.taken.map(({ pdu }) => pdu.registered_delivery)).toEqual([2, 2, 2, 1]);
    await fixture.send(long);
    expect(centre.taken.at(-1)?.pdu.short_message.udh?.[0]?.[2], "the next long text has another number").not.toBe(
      reference,
    );
  });

  it("goes out over the line that receives, once there is one", async () => {
    const { centre, fixture } = await boundSmpp();
    await fixture.send("hello");
    expect(centre.binds).toEqual(["bind_transceiver"]);
    expect(centre.taken.length).toBe(1);
  });

  it("to an address that SMPP has none for is refused before anything is opened", async () => {
    const { centre, fixture } = await boundSmpp({}, { run: false });
    const [outcome] = await fixture.send("hello", { to: "whatsapp:+15550177" });
    expect(outcome).toMatchObject({ kind: "refused", code: "address" });
    expect(centre.binds).toEqual([]);
  });

  const names = { alphabet: "latin1", source: { ton: 5, npi: 0 } };
  it("has the sender's type and the alphabet that the block says", async () => {
    const { centre, fixture } = await boundSmpp({ ...names }, { run: false });
    await fixture.send("ça va");
    const taken = centre.taken[0]?.pdu;
    expect(taken).toMatchObject({ source_addr_ton: 5, source_addr_npi: 0 });
    await fixture.send("5€");
    expect(centre.taken[1]).toMatchObject({ text: "5€", pdu: { data_coding: 8 } });
  });
});

describe("what the centre says", () => {
  const answers: readonly (readonly [status: number, outcome: object, state: string | null])[] = [
    [0x0b, { kind: "refused", code: "0x0b", scope: "recipient" }, null],
    [0x50, { kind: "deferred", retryAfterMs: 3_600_000, scope: "recipient" }, "degraded"],
    [0x58, { kind: "deferred", scope: "channel" }, null],
    [0x14, { kind: "deferred", scope: "channel" }, null],
    [0x0a, { kind: "deferred", scope: "sender", cause: "set-up" }, "degraded"],
    [0x0e, { kind: "deferred", scope: "channel", cause: "login" }, "unauthorized"],
    [0x08, { kind: "deferred", retryAfterMs: 120_000 }, null],
    [0x61, { kind: "refused", code: "0x61" }, null],
    [0xff, { kind: "unknown" }, null],
    [0x45b, { kind: "refused", code: "0x45b" }, null],
  ];
  it.each(answers)("status %i is an outcome", async (status, outcome, state) => {
    const { centre, fixture } = await boundSmpp({}, { run: false });
    centre.fault({ status });
    const [found] = await fixture.send("hello");
    expect(found).toMatchObject(outcome);
    expect(JSON.stringify(found), "no number in a reason").not.toContain("15550177");
    expect(fixture.channel.statuses.at(-1)?.state ?? null).toBe(state);
    centre.fault("none");
    expect((await fixture.send("again"))[0]?.kind).toBe("sent");
    if (state !== null) expect(fixture.channel.statuses.at(-1)?.state).toBe("ready");
  });

  it("a login that is refused pauses the channel and says so", async () => {
    const { fixture } = await boundSmpp({ password: "wrong" }, { run: false });
    expect(await fixture.send("hello")).toEqual([expect.objectContaining({ kind: "deferred", scope: "channel" })]);
    expect(fixture.channel.statuses.at(-1)).toMatchObject({ state: "unauthorized", code: "0x0e" });
  });

  it("too much at once in the middle of a long text is waited for", async () => {
    const { centre, fixture } = await boundSmpp({}, { run: false });
    centre.fault({ status: 0x58, from: 2 });
    const sending = fixture.send(long);
    await expect.poll(() => centre.asked.length).toBe(2);
    centre.fault("none");
    expect((await sending)[0]?.kind).toBe("sent");
    expect(centre.taken.map(({ text }) => text).join(""), "no part twice").toBe(long);
  });

  it.each([
    [0x58, "too much at once"],
    [0x08, "a system error"],
    [0x0e, "a login"],
  ])("status %i (%s) that stays in the middle of a long text means unknown: no part is sent again", async (status) => {
    const centre = await startSmsc();
    const channel = recordingChannel({ timing: { throttled: 20 } });
    await using fixture = openSmpp({ port: centre.port }, { run: false, channel });
    centre.fault({ status, from: 3 });
    expect((await fixture.send(long))[0]).toEqual({
      kind: "unknown",
      reason: expect.stringMatching(/message 3 of 4 .*; the messages before it were accepted$/),
    });
    expect(centre.taken.length, "the first two").toBe(2);
  });

  it("a connection lost in the middle of a long text means unknown", async () => {
    const { centre, fixture } = await boundSmpp({}, { run: false });
    centre.fault("cut-submit");
    expect((await fixture.send(long))[0]?.kind).toBe("unknown");
    centre.fault("none");
    expect((await fixture.send("next"))[0]?.kind, "the next goes out over a new line").toBe("sent");
    expect(centre.binds.length).toBe(2);
  });

  it("silence is noticed after the time given", async () => {
    const { centre, fixture } = await boundSmpp({ timeout: "2s" }, { run: false });
    centre.fault("hang-submit");
    expect((await fixture.send("hello"))[0]?.kind).toBe("unknown");
  });
});

describe("the window", () => {
  it("bounds what is under way; what waits beyond it was not sent", async () => {
    const { centre, fixture } = await boundSmpp({ window: 2 }, { run: false });
    centre.fault("hang-submit");
    const sends = ["a", "b", "c", "d"].map((text) => fixture.send(text));
    await expect.poll(() => centre.asked.length).toBe(2);
    expect(await Promise.race([...sends, Promise.resolve(centre.asked.length)])).toBe(2);
    centre.cut();
    const kinds = (await Promise.all(sends)).flat().map(({ kind }) => kind);
    expect(kinds.sort()).toEqual(["deferred", "deferred", "unknown", "unknown"]);
    expect(centre.asked.length).toBe(2);
  });

  it("is answered before the line ends when the centre takes its leave; what waits beyond it was not sent", async () => {
    const { centre, fixture } = await boundSmpp({ window: 2 });
    centre.fault("hang-submit");
    const sends = ["a", "b", "c"].map((text) => fixture.send(text));
    await expect.poll(() => centre.asked.length).toBe(2);
    const left = centre.unbind();
    await centre.enquire(); // answered behind it
    const late = fixture.send("late");
    centre.release();
    const kinds = (await Promise.all([...sends, late])).flat().map(({ kind }) => kind);
    expect(kinds).toEqual(["sent", "sent", "deferred", "deferred"]);
    expect((await left).command).toBe("unbind_resp");
    expect(centre.asked.length).toBe(2);
    await expect.poll(() => centre.binds.length).toBe(2);
  });

  it("of texts that the centre leaves unanswered ends with their time", async () => {
    const { centre, fixture } = await boundSmpp({ timeout: "1s" });
    centre.fault("hang-submit");
    const sending = fixture.send("a");
    await expect.poll(() => centre.asked.length).toBe(1);
    expect((await centre.unbind()).command).toBe("unbind_resp");
    expect((await sending)[0]?.kind).toBe("unknown");
  });

  it("passes on as answers come", async () => {
    const { centre, fixture } = await boundSmpp({ window: 3 }, { run: false });
    const outcomes = (await Promise.all(Array.from({ length: 60 }, (_, at) => fixture.send(`text ${at}`)))).flat();
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(["sent"]));
    expect(new Set(centre.taken.map(({ text }) => text)).size).toBe(60);
  });
});

describe("receipts", () => {
  const receipt = (words: string, more: object = {}) => spoken(words, { esm_class: 4, ...more });
  const form = (id: string, status: string, error = "000") =>
    `id:${id} sub:001 dlvrd:001 submit date:2611211200 done date:2611211201 stat:${status} err:${error} text:hello`;

  it("become deliveries, by their text or by their parameters, and are answered", async () => {
    const { centre, fixture } = await boundSmpp();
    centre.deliver(receipt(form("m1", "DELIVRD")));
    centre.deliver(receipt(form("m2", "UNDELIV", "069")));
    centre.deliver(receipt("", { receipted_message_id: "m3", message_state: 2 }));
    centre.deliver(receipt(form("m4", "ENROUTE"), { esm_class: 0x20 }));
    centre.deliver(receipt("something else entirely"));
    await fixture.channel.until("four receipts", ({ stored }) => stored.length === 4);
    expect(fixture.channel.stored).toMatchObject([
      { kind: "delivery", id: "m1/DELIVRD/2611211201", about: { sent: ["m1"] }, state: "delivered" },
      { kind: "delivery", id: "m2/UNDELIV/2611211201", about: { sent: ["m2"] }, state: "failed", permanent: false },
      { kind: "delivery", id: "m3/DELIVRD", about: { sent: ["m3"] }, state: "delivered" },
      { kind: "delivery", id: "m4/ENROUTE/2611211201", about: { sent: ["m4"] }, state: "accepted" },
    ]);
    expect(fixture.channel.stored[1]).toHaveProperty("detail", expect.stringContaining("069"));
    await expect.poll(() => centre.answered.length).toBe(5);
    expect(fixture.channel.messages).toEqual([]);
  });

  it("are never a person's text, although esm_class does not mark them", async () => {
    const { centre, fixture } = await boundSmpp();
    centre.deliver(spoken(form("m1", "DELIVERED")));
    centre.deliver(spoken(form("m2", "UNDELIVERABLE").replace("sub:001 dlvrd:001 ", "")));
    centre.deliver(spoken("", { receipted_message_id: "m3", message_state: 5 }));
    const told = ["id: 4, submit date: today", "id: 7 stat: how many are left?"];
    for (const text of told) centre.deliver(spoken(text));
    centre.deliver(spoken(form("m4", "DELIVRD").replaceAll(":", ": ").replaceAll(" date", "_date")));
    centre.deliver(spoken("id:m5 stat:EXPIRED"));
    const short_message = Buffer.from(form("m6", "BUFFERED"), "utf16le").swap16();
    centre.deliver(spoken("", { data_coding: 8, short_message }));
    await fixture.channel.until("all", ({ stored }) => stored.length === 8);
    expect(fixture.channel.stored.filter(({ kind }) => kind === "delivery")).toMatchObject([
      { about: { sent: ["m1"] }, state: "delivered" },
      { about: { sent: ["m2"] }, state: "failed" },
      { about: { sent: ["m3"] }, state: "failed" },
      { about: { sent: ["m4"] }, state: "delivered", id: "m4/DELIVRD/2611211201" },
      { about: { sent: ["m5"] }, state: "failed" },
      { about: { sent: ["m6"] }, state: "accepted" },
    ]);
    expect(fixture.channel.messages.map(({ text }) => text)).toEqual(told);
  });

  it("are one event when they are delivered again, and another one when the centre uses the id again", async () => {
    const { centre, fixture } = await boundSmpp();
    for (const minute of ["01", "01", "02"])
      centre.deliver(receipt(form("m1", "DELIVRD").replace("done date:2611211201", `done date:26112112${minute}`)));
    await expect.poll(() => centre.answered.length).toBe(3);
    expect(fixture.channel.stored.map(({ id }) => id)).toEqual(["m1/DELIVRD/2611211201", "m1/DELIVRD/2611211202"]);
  });

  it("may name a text by the decimal form of its hexadecimal id", async () => {
    const centre = await startSmsc({ idOf: (n) => (0xab0 + n).toString(16) });
    await using fixture = openSmpp({ port: centre.port, receipt_ids: "decimal" });
    await bound(fixture);
    expect(await fixture.send("hello")).toEqual([{ kind: "sent", id: "ab1" }]);
    centre.deliver(receipt(form(String(0xab1), "DELIVRD")));
    await fixture.channel.until("the receipt", ({ stored }) => stored.length === 1);
    expect(fixture.channel.stored[0]).toMatchObject({ about: { sent: ["ab1"] } });
  });

  // The form of the id in submit_sm_resp, and that of the same id in the receipt.
  const forms: readonly (readonly [ids: "same" | "decimal", response: string, receipt: string])[] = [
    ["decimal", "ABC", "2748"],
    ["decimal", "00000ABC", "2748"],
    ["decimal", "abc", "0000002748"],
    ["decimal", "0000000a", "10"],
    ["decimal", "00000012", "18"],
    ["decimal", "FFFFFFFFFFFFFFFFFF", "4722366482869645213695"],
    ["decimal", "00000ABC", "ABC"],
    ["decimal", "0f3a-4d-X", "0f3a-4d-X"],
    ["same", "00000ABC", "00000ABC"],
    ["same", "0000002748", "0000002748"],
    ["same", "123456", "0000123456"],
    ["same", "4C0A1F", "4c0a1f"],
    ["same", "aB3-x", "aB3-x"],
  ];
  it.each(forms)("name the text (%s) whose response had the id %s as %s", async (ids, response, named) => {
    const centre = await startSmsc({ idOf: () => response });
    await using fixture = openSmpp({ port: centre.port, receipt_ids: ids });
    await bound(fixture);
    const [outcome] = await fixture.send("hello");
    const id = outcome?.kind === "sent" ? outcome.id : null;
    centre.deliver(receipt(form(named, "DELIVRD")));
    centre.deliver(receipt("", { receipted_message_id: named, message_state: 5 }));
    await fixture.channel.until("the receipts", ({ stored }) => stored.length === 2);
    for (const stored of fixture.channel.stored) expect(stored).toMatchObject({ about: { sent: [id] } });
  });
});

const missing = await need("openssl", "/usr/bin/openssl");
describeReal("TLS", missing, () => {
  it("is used, and an unknown certificate is refused", async () => {
    const { key, cert } = certificate();
    const centre = await startSmsc({ key, cert });
    await using trusting = openSmpp({ port: centre.port, tls: "implicit", ca: cert }, { run: false });
    expect((await trusting.send("hello"))[0]?.kind).toBe("sent");
    await using strict = openSmpp({ port: centre.port, tls: "implicit" }, { run: false });
    expect((await strict.send("hello"))[0]).toMatchObject({
      kind: "deferred",
      reason: expect.stringMatching(/certificate/),
    });
    expect(centre.taken.length).toBe(1);
  });
});
