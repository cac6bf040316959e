import { cursor, externalId, type MessageEvent, timingOf } from "bridgehead/contract";
import { recordingChannel } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";

const message = (id: string, fingerprint?: string): MessageEvent => ({
  kind: "message",
  id: externalId(id),
  ...(fingerprint === undefined ? {} : { fingerprint }),
  from: { address: "ann" },
  to: [],
  thread: { answers: [] },
  sentAt: new Date(0),
  text: id,
});

describe("recordingChannel", () => {
  it("commits events and cursor together, and calls a known id or fingerprint a duplicate", async () => {
    const channel = recordingChannel();
    expect(channel.cursor).toBeNull();
    const first = await channel.accept([message("a", "f"), message("a")], cursor("1"));
    expect(first.map((one) => one.duplicate)).toEqual([false, true]);
    const second = await channel.accept([message("a"), message("b", "f"), message("c")], cursor("2"));
    expect(second.map((one) => [one.id, one.duplicate])).toEqual([
      ["a", true],
      ["b", true],
      ["c", false],
    ]);
    expect(channel.messages.map((one) => one.id)).toEqual(["a", "c"]);
    expect(channel.cursor).toBe("2");
    expect([...(await channel.known([externalId("a"), externalId("z")]))]).toEqual(["a"]);
  });

  it("holds every call until release, then commits in the order of the calls", async () => {
    const channel = recordingChannel();
    channel.hold();
    const both = [channel.accept([message("a")], cursor("1")), channel.accept([message("b")], cursor("2"))];
    await channel.until("two pending calls", (now) => now.calls.length === 2);
    await new Promise((resolve) => setImmediate(resolve));
    expect(channel.calls.map((call) => call.state)).toEqual(["pending", "pending"]);
    expect([channel.stored.length, channel.cursor]).toEqual([0, null]);
    channel.release();
    await Promise.all(both);
    expect(channel.stored.map((event) => event.id)).toEqual(["a", "b"]);
    expect(channel.cursor).toBe("2");
  });

  it("rejects as often as configured, with nothing committed", async () => {
    const channel = recordingChannel({ cursor: cursor("0") });
    channel.reject(2, new Error("away"));
    await expect(channel.accept([message("a")], cursor("1"))).rejects.toThrow("away");
    await expect(channel.accept([message("a")], cursor("1"))).rejects.toThrow("away");
    expect([channel.stored.length, channel.cursor]).toEqual([0, "0"]);
    expect(await channel.accept([message("a")], cursor("1"))).toEqual([{ id: "a", duplicate: false }]);
    expect(channel.calls.map((call) => call.state)).toEqual(["rejected", "rejected", "committed"]);
  });

  it("wakes who waits at the change, and names what never came", async () => {
    const channel = recordingChannel();
    const ready = channel.until("ready", (now) => now.statuses.at(-1)?.state === "ready");
    channel.report({ state: "connecting" });
    channel.report({ state: "ready" });
    await ready;
    await expect(channel.until("a miracle", () => false, 20)).rejects.toThrow("a miracle");
  });

  it("builds public addresses under the channel's own prefix", () => {
    expect(recordingChannel({ id: "sms" }).url("/inbound").href).toBe("https://bridge.example/channels/sms/inbound");
  });
});

describe("the timing of a channel", () => {
  const table = { idle: 20_000, retry: 500 };

  it("is the adapter's table, with the overrides of the channel", () => {
    expect(timingOf({}, table)).toEqual(table);
    expect(timingOf(recordingChannel(), table)).toEqual(table);
    expect(timingOf(recordingChannel({ timing: { idle: 20 } }), table)).toEqual({ idle: 20, retry: 500 });
  });

  it("rejects an override that no duration has", () => {
    const channel = recordingChannel({ timing: { idel: 20 } });
    expect(() => timingOf(channel, table)).toThrow("its adapter has no duration idel");
  });
});
