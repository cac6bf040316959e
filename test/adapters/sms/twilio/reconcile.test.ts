// Did it go out? What a later look at the provider's list finds of a text whose creation was not answered.

import { type Finding, type PastAttempt, sendKey } from "bridgehead/contract";
import { recordingChannel, wallClock } from "bridgehead/contract/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SmsApi } from "../../../../src/sandbox/sms-api.ts";
import {
  attempt,
  openTwilio,
  ours,
  person,
  replyTo,
  type Settings,
  sendText,
  signed,
  startApi,
  statusForm,
} from "../../../support/sms/providers.ts";

let api: SmsApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

type Fixture = ReturnType<typeof openTwilio>;

/** Sends `text` and loses the response. Returns the sid that the provider assigned nevertheless. */
async function lost(here: Fixture, text: string, key = "01hzx7key", to = person): Promise<string> {
  api.fault("cut-stored", { times: 1 });
  const { outcome } = await sendText(here, to, text, attempt(key));
  expect(outcome.kind).toBe("unknown");
  return api.sent.at(-1)?.sid ?? "";
}

/** The finding on an attempt that began `age` milliseconds ago. */
async function look(here: Fixture, text: string, age: number, key = "01hzx7key", to = person): Promise<Finding> {
  const [draft] = here.adapter.outbound?.compose(replyTo(to, text)) ?? [];
  if (draft === undefined) throw new Error("nothing to look for");
  const startedAt = new Date(here.channel.clock.now() - age);
  const past: PastAttempt = { key: sendKey(key), number: 1, startedAt };
  const finding = await here.adapter.outbound?.reconcile?.(draft, past, AbortSignal.timeout(60_000));
  if (!finding) throw new Error("nobody can tell");
  return finding;
}

const seconds = 1000;

describe("a text without an answer", () => {
  it("is not looked for before the provider can have finished with it", async () => {
    const here = openTwilio(api.url);
    await lost(here, "Too early.");
    const finding = await look(here, "Too early.", 5 * seconds);
    expect(finding.kind).toBe("unsure");
    const again = finding.kind === "unsure" ? finding.lookAgainAfterMs : undefined;
    expect(again).toBeGreaterThan(20 * seconds);
    expect(again).toBeLessThanOrEqual(25 * seconds);
  });

  it("is found by its text, recipient and time", async () => {
    const here = openTwilio(api.url);
    const sid = await lost(here, "Found.");
    expect(await look(here, "Found.", 31 * seconds)).toEqual({ kind: "sent", id: sid });
    expect(await look(here, "Found.", 31 * seconds)).toEqual({ kind: "sent", id: sid });
  });

  it("is found by another process as well", async () => {
    const sid = await lost(openTwilio(api.url), "Found by the next one.");
    expect(await look(openTwilio(api.url), "Found by the next one.", 40 * seconds)).toEqual({
      kind: "sent",
      id: sid,
    });
  });

  it("is found behind the prefix of a trial account", async () => {
    const here = openTwilio(api.url);
    const sid = await lost(here, "Your table is booked.");
    Object.assign(api.sent.at(-1) ?? {}, { body: "Sent from your Twilio trial account - Your table is booked." });
    expect(await look(here, "Your table is booked.", 90 * seconds)).toEqual({ kind: "sent", id: sid });
  });

  it.each([-300, 300])("is found although our clock is %d seconds ahead of the provider's", async (ahead) => {
    const here = openTwilio(api.url, {}, recordingChannel({ clock: wallClock(ahead * seconds) }));
    const sid = await lost(here, `By a clock ${ahead} ahead.`);
    expect(await look(here, `By a clock ${ahead} ahead.`, 90 * seconds)).toEqual({ kind: "sent", id: sid });
  });

  it("is found although a messaging service has replaced characters that cost more", async () => {
    const here = openTwilio(api.url);
    const sid = await lost(here, "½ day off – 3÷2‼");
    Object.assign(api.sent.at(-1) ?? {}, { body: "1/2 day off - 3/2!!" });
    expect(await look(here, "½ day off – 3÷2‼", 90 * seconds)).toEqual({ kind: "sent", id: sid });
    await lost(here, "🙂");
    expect(await look(here, "👍", 90 * seconds)).toEqual({ kind: "not-sent" });
  });

  it("is unsure while a redacted text may be ours", async () => {
    const here = openTwilio(api.url);
    await lost(here, "Redacted.");
    Object.assign(api.sent.at(-1) ?? {}, { body: "" });
    expect(await look(here, "Redacted.", 90 * seconds)).toMatchObject({ kind: "unsure" });
    Object.assign(api.sent.at(-1) ?? {}, { body: "Another text." });
    expect(await look(here, "Redacted.", 90 * seconds)).toEqual({ kind: "not-sent" });
  });

  it("that is nowhere is looked for twice before it is called not sent", async () => {
    const here = openTwilio(api.url);
    expect(await look(here, "Nowhere.", 31 * seconds)).toEqual({
      kind: "unsure",
      lookAgainAfterMs: 30 * seconds,
    });
    expect(await look(here, "Nowhere.", 61 * seconds)).toEqual({ kind: "not-sent" });
  });

  it.each<[string, Settings]>([
    ["number", {}],
    ["service", { messaging_service: "MG1" }],
    ["service alone", { messaging_service: "MG1", number: undefined }],
  ])("of a %s is found", async (what, more) => {
    const here = openTwilio(api.url, more);
    const sid = await lost(here, `By ${what}.`);
    expect(await look(here, `By ${what}.`, 31 * seconds)).toEqual({ kind: "sent", id: sid });
  });

  it("is unsure while the interface does not answer, so that nothing is repeated blindly", async () => {
    const here = openTwilio(api.url);
    api.fault({ status: 500 }, { on: "list", times: 1 });
    await expect(look(here, "Away.", 90 * seconds)).rejects.toThrow();
  });
});

describe("a text is not taken for", () => {
  it.each<[string, { text?: string; to?: string; settings?: Settings }]>([
    ["other words", { text: "Other words." }],
    ["another person's", { to: "+15550178" }],
    ["one of another number of ours", { settings: { number: "+15550101" } }],
    ["one of another service", { settings: { messaging_service: "MG2", number: undefined } }],
  ])("%s", async (what, { text, to, settings }) => {
    await lost(openTwilio(api.url), `Mine: ${what}.`);
    const here = openTwilio(api.url, settings);
    expect(await look(here, text ?? `Mine: ${what}.`, 90 * seconds, "01hzx7key", to)).toEqual({
      kind: "not-sent",
    });
  });

  it("what the person wrote with the same text", async () => {
    await api.receive({ from: ours, to: person, body: "Echo.", webhook: false });
    expect(await look(openTwilio(api.url), "Echo.", 90 * seconds)).toEqual({ kind: "not-sent" });
  });

  it("one that was sent before the attempt began", async () => {
    const here = openTwilio(api.url);
    await lost(here, "Yesterday's.", "01hzx7old");
    Object.assign(api.sent.at(-1) ?? {}, { createdAt: here.channel.clock.now() - 3600 * seconds });
    expect(await look(here, "Yesterday's.", 90 * seconds)).toEqual({ kind: "not-sent" });
  });

  it("one of another draft with the same text: the answered one is not adopted", async () => {
    const here = openTwilio(api.url);
    const first = await sendText(here, person, "Ok.", attempt("01hzx7first"));
    expect(first.outcome.kind).toBe("sent");
    expect(await look(here, "Ok.", 90 * seconds, "01hzx7second")).toEqual({ kind: "not-sent" });
  });

  it("one of another draft: of two lost ones each has its own", async () => {
    const here = openTwilio(api.url);
    const sids = [await lost(here, "Twice.", "01hzx7a"), await lost(here, "Twice.", "01hzx7b")];
    const found = [
      await look(here, "Twice.", 40 * seconds, "01hzx7a"),
      await look(here, "Twice.", 40 * seconds, "01hzx7b"),
    ];
    expect(found.map((finding) => (finding.kind === "sent" ? finding.id : finding.kind)).sort()).toEqual(sids.sort());
  });

  it("one whose callback named another draft, in this process or in one before it", async () => {
    const here = openTwilio(api.url);
    const sid = await lost(here, "Called back.", "01hzx7first");
    const url = "https://bridge.example/channels/test-channel/status?draft=01hzx7first";
    await here.post("/status", signed(url, statusForm(sid, "sent")));
    expect(await look(here, "Called back.", 90 * seconds, "01hzx7first")).toEqual({ kind: "sent", id: sid });
    expect(await look(here, "Called back.", 90 * seconds, "01hzx7second")).toEqual({ kind: "not-sent" });
    // The next process has only what is stored: the callback may just be on its way to the draft that is looked for.
    const next = openTwilio(api.url, {}, here.channel);
    expect(await look(next, "Called back.", 90 * seconds, "01hzx7second")).toMatchObject({ kind: "unsure" });
  });
});
