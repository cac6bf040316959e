// STOP, START and HELP through the whole daemon, also while replies wait for their delay.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import { anna, type LinesWorld, openLines } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";
import { inProcess } from "../support/machine/command.ts";

const bert = "+12025550124";
/** Longer than any machine takes for what happens meanwhile: it passes when the test says so. */
const delay = 3600;
const delayed = { responseDelaySeconds: delay };
const drafts = (world: LinesWorld) => world.rows<{ state: string }>("SELECT state FROM drafts ORDER BY id");
const codes = (world: LinesWorld) =>
  world.rows<{ code: string }>("SELECT code FROM events WHERE kind = 'message' AND code IS NOT NULL ORDER BY id");

it.concurrent("a STOP during the delay ends the reply that waits", async ({ onTestFinished }) => {
  const clock = movableClock();
  const world = await openLines(onTestFinished, { clock, smsSkill: delayed });
  await world.text("Hello?");
  await world.text("Hello?", { from: bert });
  await eventually(async () => expect(await drafts(world)).toEqual([{ state: "queued" }, { state: "queued" }]));
  await world.text("Stop!");
  await eventually(async () => expect(await codes(world)).toEqual([{ code: "opt-out" }]));
  clock.forward(delay * 1000);
  await world.api.until(({ sent }) => sent.length > 0);
  await world.idle();
  expect(world.textsTo()).toEqual([]);
  expect(world.textsTo(bert), "others are not concerned").toEqual([echoed("Hello?")]);
  expect(await codes(world)).toEqual([{ code: "opt-out" }]);
  expect(world.questions()).toHaveLength(2);
});

it.concurrent("START lifts it, and the agent hears of neither", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  await world.text("STOP");
  await world.text("One question");
  await world.idle();
  expect(world.textsTo()).toEqual([]);
  await world.text("start");
  await world.text("Another one");
  await world.api.until(({ sent }) => sent.length > 0);
  await world.idle();
  expect(world.textsTo()).toEqual([echoed("Another one")]);
  expect((await codes(world)).map(({ code }) => code)).toEqual(["opt-out", "suppressed", "opt-in"]);
  expect(world.questions().map(({ text }) => text)).toEqual(["Another one"]);
});

it.concurrent("answers HELP from the configuration, also to whom it says nothing else", async ({ onTestFinished }) => {
  const opt_out = { help_text: "Lumen Lamps. Reply STOP to end.", stop_text: "You are off the list." };
  const world = await openLines(onTestFinished, { sms: { opt_out }, smsSkill: { smsSignature: "The Team" } });
  const { message } = await world.text("STOP");
  await world.api.until(({ sent }) => sent.length === 1);
  await world.text("help");
  await world.api.until(({ sent }) => sent.length === 2);
  await world.api.repeat(message);
  await world.text("Hello?");
  await world.idle();
  expect(world.textsTo()).toEqual([opt_out.stop_text, opt_out.help_text]);
  expect(world.questions().every(({ text }) => text === "Hello?")).toBe(true);
});

it.concurrent("applies the opt-out keyword that the provider recognized", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  await world.text("please leave me alone", { more: { OptOutType: "STOP" } });
  await world.text("Hello?");
  await world.idle();
  expect(world.textsTo()).toEqual([]);
  expect((await codes(world)).map(({ code }) => code)[0]).toBe("opt-out");
  expect(await world.rows("SELECT address, active FROM suppressions")).toEqual([{ address: anna, active: 1 }]);
});

it.concurrent("counts whole messages only", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  await world.text("When does it stop raining?");
  await world.api.until(({ sent }) => sent.length === 1);
  expect(world.textsTo()).toEqual([echoed("When does it stop raining?")]);
});

it.concurrent("a delayed reply survives a restart, and so does a STOP", async ({ onTestFinished }) => {
  const clock = movableClock();
  const world = await openLines(onTestFinished, { clock, smsSkill: delayed });
  await world.text("Hello?");
  await world.text("Hello?", { from: bert });
  await eventually(async () => expect(await drafts(world)).toHaveLength(2));
  await world.text("STOP");
  await world.restart();
  expect(world.api.sent).toEqual([]);
  await eventually(async () => expect(await codes(world)).toEqual([{ code: "opt-out" }]));
  clock.forward(delay * 1000);
  await world.api.until(({ sent }) => sent.length > 0);
  await world.idle();
  expect([world.textsTo(), world.textsTo(bert)]).toEqual([[], [echoed("Hello?")]]);
});

it.concurrent("a newer text ends the reply that waits, where texts are joined", async ({ onTestFinished }) => {
  const clock = movableClock();
  const world = await openLines(onTestFinished, { clock, sms: { debounce: "200ms" }, smsSkill: delayed });
  await world.text("Hello?");
  await eventually(async () => expect(await drafts(world)).toEqual([{ state: "queued" }]));
  await world.text("Forget it, where is my lamp?");
  await eventually(async () => expect(await drafts(world)).toHaveLength(2));
  clock.forward(delay * 1000);
  await world.api.until(({ sent }) => sent.length > 0);
  await world.idle();
  expect(world.textsTo()).toEqual([echoed("Forget it, where is my lamp?")]);
  expect(world.questions()).toHaveLength(2);
});

it.concurrent("applies an opt-out from a delivery receipt at once", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  world.api.fault({ fails: 21610 }, { times: 1 });
  await world.text("Hello?");
  await eventually(async () =>
    expect(await world.rows("SELECT address, active, strikes FROM suppressions")).toEqual([
      { address: anna, active: 1, strikes: 0 },
    ]),
  );
  await world.text("Still there?");
  await world.idle();
  expect(world.textsTo()).toEqual([echoed("Hello?")]);
  expect(await drafts(world)).toEqual([{ state: "failed" }]);
  expect(world.questions()).toHaveLength(1);
});

it.concurrent("a request for no more texts counts as STOP, and a doubtful one waits for a human", async ({
  onTestFinished,
}) => {
  const world = await openLines(onTestFinished);
  await world.text("Please stop texting me");
  await world.api.until(({ sent }) => sent.length === 1);
  await world.text("I told you people to stop texting me about lamps", { from: bert });
  await eventually(async () => expect(await codes(world)).toEqual([{ code: "opt-out" }, { code: "possible-opt-out" }]));
  await world.idle();
  expect(world.textsTo()).toEqual([expect.stringContaining("Reply START")]);
  expect(world.textsTo(bert)).toEqual([]);
  expect(world.questions()).toEqual([]);
  const held = await world.rows("SELECT state FROM events WHERE code = 'possible-opt-out'");
  expect(held).toEqual([{ state: "held" }]);
});

it.concurrent("an operator opts out the sender of a doubtful text, and the reply that waits is not sent", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const sms = { on_new_message: "send" };
  const world = await openLines(onTestFinished, { clock, sms, smsSkill: delayed });
  const opted = (...words: readonly string[]) =>
    inProcess(["opt-out", ...words, "--config", world.file], { ...world.env, USER: "dora" });
  await world.text("Hello?", { from: bert });
  await eventually(async () => expect(await drafts(world)).toEqual([{ state: "queued" }]));
  await world.text("I told you people to stop texting me about lamps", { from: bert });
  await eventually(async () => expect(await codes(world)).toEqual([{ code: "possible-opt-out" }]));
  const [held] = await world.rows<{ id: number }>("SELECT id FROM events WHERE state = 'held'");
  const added = await opted("add", String(held?.id), "--reason", "clear enough");
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining("replies that wait and are dropped: 1") });
  await world.text("Hello?");
  await eventually(async () => expect(await drafts(world)).toHaveLength(2));
  clock.forward(delay * 1000);
  await world.api.until(({ sent }) => sent.length > 0);
  await world.text("Are you there?", { from: bert });
  await world.idle();
  expect([world.textsTo(), world.textsTo(bert)]).toEqual([[echoed("Hello?")], []]);
  expect((await codes(world)).map(({ code }) => code)).toEqual(["possible-opt-out", "suppressed"]);
  expect((await opted("remove", "+1 202 555 0124", "--channel", "sms")).code).toBe(0);
  await world.text("Thanks for calling", { from: bert });
  await eventually(async () => expect(await drafts(world)).toHaveLength(3));
});
