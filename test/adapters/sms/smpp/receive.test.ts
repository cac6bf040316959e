// What a message centre (npm's smpp server) delivers: stored first, answered after, once each, through cuts and restarts.

import { recordingChannel } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";
import { eventually, movableClock } from "../../../support/clock.ts";
import { bound, boundSmpp, openSmpp, type Smsc, spoken, startSmsc } from "../../../support/sms/smpp.ts";

const ucs2 = (text: string, more: object = {}) =>
  spoken("", { data_coding: 8, short_message: Buffer.from(text, "utf16le").swap16(), ...more });
/** One part of a long text, as phones send it. */
const part = (reference: number, total: number, at: number, text: string, more: object = {}) =>
  spoken("", {
    esm_class: 0x40,
    short_message: Buffer.concat([Buffer.from([5, 0, 3, reference, total, at]), Buffer.from(text, "latin1")]),
    ...more,
  });
const answered = (centre: Smsc, count: number) => expect.poll(() => centre.answered.length).toBe(count);

describe("a person's text", () => {
  it("arrives with its characters and canonical numbers", async () => {
    const { centre, fixture } = await boundSmpp();
    centre.deliver(spoken("", { short_message: Buffer.from([0x00, 0x61, 0x1b, 0x65, 0x7e]) }));
    centre.deliver(ucs2("Привет 🙂"));
    centre.deliver(spoken("déjà", { data_coding: 3 }));
    centre.deliver(spoken("", { message_payload: Buffer.from("a payload") }));
    centre.deliver(spoken("x", { data_coding: 4 }));
    centre.deliver(spoken("hello", { source_addr: "4930901820", source_addr_ton: 0, source_addr_npi: 0 }));
    await fixture.channel.until("six texts", ({ messages }) => messages.length === 6);
    expect(fixture.channel.messages.map(({ text }) => text)).toEqual([
      "@a€ü",
      "Привет 🙂",
      "déjà",
      "a payload",
      "[a message that is no text]",
      "hello",
    ]);
    expect(fixture.channel.messages[0]).toMatchObject({
      from: { address: "+15550177" },
      to: [{ address: "+15550100" }],
      thread: { answers: [] },
    });
    expect(fixture.channel.messages[5]?.from.address).toBe("+4930901820");
    await answered(centre, 6);
  });

  it("is read in the centre's own alphabet", async () => {
    const centre = await startSmsc();
    const packed = Buffer.from("e8329bfd4697d9ec37", "hex");
    await using fixture = openSmpp({ port: centre.port, alphabet: "gsm7-packed" });
    await bound(fixture);
    centre.deliver(spoken("", { short_message: packed }));
    await fixture.channel.until("a text", ({ messages }) => messages.length === 1);
    expect(fixture.channel.messages[0]?.text).toBe("hellohello");
  });

  it("is a word of consent when it is one", async () => {
    const { centre, fixture } = await boundSmpp();
    centre.deliver(spoken("Stop."));
    await fixture.channel.until("a text", ({ messages }) => messages.length === 1);
    expect(fixture.channel.messages[0]?.consent).toEqual({ word: "stop" });
  });

  it("is another one when the same text is sent again, also at once", async () => {
    const { centre, fixture } = await boundSmpp();
    for (let n = 0; n < 5; n++) centre.deliver(spoken("ok"));
    await answered(centre, 5);
    centre.deliver(spoken("ok"));
    await answered(centre, 6);
    expect(fixture.channel.messages.length).toBe(6);
    expect(new Set(fixture.channel.messages.map(({ id }) => id)).size).toBe(6);
  });

  it("in a flood is stored in few commits, in order", async () => {
    const { centre, fixture } = await boundSmpp();
    for (let n = 0; n < 1000; n++) centre.deliver(spoken(`text ${n}`));
    await fixture.channel.until("a thousand texts", ({ messages }) => messages.length === 1000);
    await answered(centre, 1000);
    expect(fixture.channel.messages.map(({ text }) => text)).toEqual(
      Array.from({ length: 1000 }, (_, n) => `text ${n}`),
    );
    expect(fixture.channel.calls.length).toBeLessThan(200);
  });
});

describe("a flood", () => {
  it("beyond what can wait is put off, and comes again", async () => {
    const { centre, fixture } = await boundSmpp();
    await fixture.channel.until("the first cursor", ({ cursor }) => cursor !== null);
    // The commit that hangs has one text, however many the line would have brought at once.
    fixture.channel.hold();
    centre.deliver(spoken("the first"));
    await fixture.channel.until("a commit that hangs", ({ calls }) => calls.at(-1)?.state === "pending");
    for (let n = 0; n < 2500; n++) centre.deliver(spoken(`text ${n}`));
    await expect.poll(() => centre.refusals.length).toBe(500);
    expect(new Set(centre.refusals)).toEqual(new Set([0x58]));
    fixture.channel.release();
    await answered(centre, 2001);
    centre.cut();
    await fixture.channel.until("all texts", ({ messages }) => messages.length === 2501);
  });
});

describe("an answer that the centre may not have read", () => {
  it("is given again over the next line; the text is not another one", async () => {
    const { centre, fixture } = await boundSmpp();
    centre.deaf(true);
    centre.deliver(spoken("ok"));
    await fixture.channel.until("the text", ({ messages }) => messages.length === 1);
    await expect.poll(() => fixture.channel.calls.length).toBeGreaterThan(0);
    centre.deaf(false);
    centre.cut();
    await answered(centre, 1);
    expect(centre.deliveries()).toBe(2);
    centre.deliver(spoken("ok"));
    await fixture.channel.until("the second text", ({ messages }) => messages.length === 2);
    await answered(centre, 2);
    expect(fixture.channel.calls.flatMap(({ events }) => events).length, "handed over three times, stored twice").toBe(
      3,
    );
  });

  it("is given again after a restart too, and forgotten once it was surely read", async () => {
    const centre = await startSmsc();
    const channel = recordingChannel();
    centre.deaf(true);
    const first = openSmpp({ port: centre.port }, { channel });
    await bound(first);
    centre.deliver(spoken("ok"));
    await channel.until("the text", ({ messages }) => messages.length === 1);
    centre.cut();
    await first.stop();

    centre.deaf(false);
    const second = openSmpp({ port: centre.port }, { channel });
    await answered(centre, 1);
    expect(channel.messages.length, "known by the cursor alone").toBe(1);
    await channel.until("the cursor forgets it", ({ cursor }) => cursor !== null && !cursor.includes('"print"'));
    await second.stop();

    await using third = openSmpp({ port: centre.port }, { channel });
    await bound(third);
    centre.deliver(spoken("ok"));
    await channel.until("a new text", ({ messages }) => messages.length === 2);
  });

  it("is never given when nothing was stored", async () => {
    const { centre, fixture } = await boundSmpp();
    fixture.channel.reject(2);
    centre.deliver(spoken("hello"));
    await fixture.channel.until("the text", ({ messages }) => messages.length === 1);
    await answered(centre, 1);
    expect(fixture.ends.length, "two lives ended").toBe(2);
    expect(centre.deliveries()).toBe(3);
  });
});

describe("a long text", () => {
  it("is complete for any order of its parts, each acknowledged when it is stored", async () => {
    const { centre, fixture } = await boundSmpp();
    centre.deliver(part(7, 3, 2, "two "));
    await answered(centre, 1);
    expect(fixture.channel.messages.length).toBe(0);
    centre.deliver(part(7, 3, 3, "three"));
    centre.deliver(part(8, 2, 1, "other ", { source_addr: "15550188" }));
    await answered(centre, 3);
    centre.deliver(part(7, 3, 1, "one "));
    await fixture.channel.until("the text", ({ messages }) => messages.length === 1);
    expect(fixture.channel.messages[0]?.text).toBe("one two three");
    centre.deliver(part(8, 2, 2, "one", { source_addr: "15550188" }));
    await fixture.channel.until("the other", ({ messages }) => messages.length === 2);
    expect(fixture.channel.messages[1]).toMatchObject({ text: "other one", from: { address: "+15550188" } });
    await answered(centre, 5);
  });

  it("survives a restart between its parts, and parts that come twice", async () => {
    const centre = await startSmsc();
    const channel = recordingChannel();
    const first = openSmpp({ port: centre.port }, { channel });
    await bound(first);
    centre.deliver(part(7, 2, 1, "first half, "));
    await answered(centre, 1);
    await first.stop();
    await using second = openSmpp({ port: centre.port }, { channel });
    await bound(second);
    centre.deliver(part(7, 2, 1, "first half, "));
    centre.deliver(part(7, 2, 2, "second half"));
    await channel.until("the text", ({ messages }) => messages.length === 1);
    expect(channel.messages[0]?.text).toBe("first half, second half");
    await answered(centre, 3);
    await channel.until("nothing kept", ({ cursor }) => cursor === '{"groups":[],"open":[]}');
  });

  it("whose last part comes again after a cut is not another one", async () => {
    const centre = await startSmsc();
    const clock = movableClock();
    const channel = recordingChannel({ clock });
    await using fixture = openSmpp({ port: centre.port, incomplete_after: "1h" }, { channel });
    await bound(fixture);
    centre.deliver(part(7, 2, 1, "a"));
    await answered(centre, 1);
    centre.deaf(true);
    centre.deliver(part(7, 2, 2, "b"));
    await channel.until("the text", ({ messages }) => messages.length === 1);
    centre.deaf(false);
    centre.cut();
    await answered(centre, 2);
    centre.deliver(spoken("next"));
    await channel.until("the next", ({ messages }) => messages.length > 1);
    // Until the adapter looks: it remembers the parts of a text for as long as it waits for them.
    await eventually(() => {
      clock.forward(3_600_000);
      expect(channel.cursor).toBe('{"groups":[],"open":[]}');
    });
    expect(channel.messages.map(({ text }) => text)).toEqual(["ab", "next"]);
  });

  it("whose last part the network delivers twice is not another one", async () => {
    const { centre, fixture } = await boundSmpp({ incomplete_after: "200ms" });
    for (const one of [part(7, 2, 1, "a"), part(7, 2, 2, "b")]) centre.deliver(one);
    await answered(centre, 2);
    for (const one of [part(7, 2, 2, "b"), part(7, 2, 1, "c"), part(7, 2, 2, "b"), part(8, 2, 2, "d")]) {
      centre.deliver(one);
      await answered(centre, centre.deliveries());
    }
    await fixture.channel.until("an incomplete text", ({ messages }) => messages.at(-1)?.notes !== undefined);
    expect(fixture.channel.messages.map(({ text }) => text)).toEqual(["ab", "cb", "d [...]"]);
  });

  it("cut in the middle of an emoji is read right", async () => {
    const { centre, fixture } = await boundSmpp();
    const octets = Buffer.from("Hi 🙂!", "utf16le").swap16();
    const half = (at: number, data: Buffer) =>
      part(9, 2, at, "", {
        data_coding: 8,
        short_message: Buffer.concat([Buffer.from([6, 8, 4, 1, 9, 2, at]), data]),
      });
    centre.deliver(half(1, octets.subarray(0, 8)));
    centre.deliver(half(2, octets.subarray(8)));
    await fixture.channel.until("the text", ({ messages }) => messages.length === 1);
    expect(fixture.channel.messages[0]?.text).toBe("Hi 🙂!");
  });

  it("in parts by parameters is joined too", async () => {
    const { centre, fixture } = await boundSmpp();
    const sar = (at: number) => ({ sar_msg_ref_num: 300, sar_total_segments: 2, sar_segment_seqnum: at });
    centre.deliver(spoken("by ", sar(1)));
    centre.deliver(spoken("parameters", sar(2)));
    await fixture.channel.until("the text", ({ messages }) => messages.length === 1);
    expect(fixture.channel.messages[0]?.text).toBe("by parameters");
  });

  it("that stays incomplete is accepted as it is, and marked", async () => {
    const { centre, fixture } = await boundSmpp({ incomplete_after: "100ms" });
    centre.deliver(part(7, 3, 1, "the beginning"));
    await fixture.channel.until("the text", ({ messages }) => messages.length === 1);
    expect(fixture.channel.messages[0]).toMatchObject({
      text: "the beginning [...]",
      notes: { incomplete: "2 parts of this text did not arrive" },
    });
  });
});

it("a long text that stays incomplete does not wait when the clock goes back", async () => {
  const centre = await startSmsc();
  const clock = movableClock();
  const channel = recordingChannel({ clock });
  await using fixture = openSmpp({ port: centre.port, incomplete_after: "1h" }, { channel });
  await bound(fixture);
  centre.deliver(part(7, 3, 1, "the beginning"));
  await answered(centre, 1);
  clock.forward(-20 * 365 * 86_400_000);
  await eventually(() => {
    clock.forward(3_600_000);
    expect(channel.messages.map(({ text }) => text)).toEqual(["the beginning [...]"]);
  });
});

describe("the line", () => {
  it("answers when it is asked whether it stands", async () => {
    const { centre } = await boundSmpp();
    expect((await centre.enquire()).command).toBe("enquire_link_resp");
  });

  it("that has silently died is noticed, and opened again", async () => {
    const { centre, fixture } = await boundSmpp({ enquire: "300ms", timeout: "2s" });
    centre.fault("silent");
    await expect.poll(() => fixture.ends.length).toBeGreaterThan(0);
    expect(String(fixture.ends[0])).toContain("does not answer any more");
    expect(fixture.channel.statuses.at(-1)?.state).not.toBe("ready");
    centre.fault("none");
    await bound(fixture);
    centre.deliver(spoken("back"));
    await fixture.channel.until("a text", ({ messages }) => messages.length === 1);
  });

  it("of which the centre takes its leave is opened again", async () => {
    const { centre, fixture } = await boundSmpp();
    expect((await centre.unbind()).command).toBe("unbind_resp");
    await expect.poll(() => centre.binds.length).toBe(2);
    expect(String(fixture.ends[0])).toContain("took its leave");
  });

  it("is the only one of an account that may bind once, also after texts were sent without it", async () => {
    const centre = await startSmsc({ mostBinds: 1 });
    await using fixture = openSmpp({ port: centre.port }, { run: false });
    expect(await fixture.send("before")).toMatchObject([{ kind: "sent" }]);
    fixture.start();
    // Waits for the connection that is being opened.
    expect(await fixture.send("meanwhile")).toMatchObject([{ kind: "sent" }]);
    centre.deliver(spoken("hello"));
    await fixture.channel.until("a text", ({ messages }) => messages.length === 1);
    expect(centre.binds).toEqual(["bind_transmitter", "bind_transceiver"]);
    expect(fixture.channel.statuses.map(({ state }) => state)).not.toContain("unauthorized");
  });

  it("is not refused for its login while an earlier one of the account is still bound", async () => {
    const centre = await startSmsc({ mostBinds: 1 });
    const first = openSmpp({ port: centre.port });
    await bound(first);
    await using fixture = openSmpp({ port: centre.port });
    await fixture.channel.until("a refusal", ({ statuses }) => statuses.at(-1)?.state === "degraded");
    expect(fixture.channel.statuses.at(-1)).toHaveProperty("reason", expect.stringContaining("0x05 (another"));
    await first.stop();
    await bound(fixture);
  });

  it("takes leave when it is no longer wanted, after the texts that are under way", async () => {
    const centre = await startSmsc();
    const fixture = openSmpp({ port: centre.port });
    await bound(fixture);
    const sends = Array.from({ length: 5 }, (_, at) => fixture.send(`text ${at}`));
    await fixture.stop();
    expect((await Promise.all(sends)).flat().map(({ kind }) => kind)).toEqual(Array(5).fill("sent"));
  });
});
