// STOP, START and HELP through the whole daemon, also while replies wait for their delay.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../../support/clock.ts";
import { anna, ourNumber, type PhoneDaemon, startPhoneDaemon } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";
import { inProcess } from "../../support/machine/command.ts";

const bert = "+12025550124";
/** Longer than the rest of the test takes: the delay ends when the test advances the clock. */
const delay = 3600;
const delayed = { responseDelaySeconds: delay };
const drafts = (daemon: PhoneDaemon) => daemon.rows<{ state: string }>("SELECT state FROM drafts ORDER BY id");
const codes = (daemon: PhoneDaemon) =>
  daemon.rows<{ code: string }>("SELECT code FROM events WHERE kind = 'message' AND code IS NOT NULL ORDER BY id");

it.concurrent("a STOP during the delay ends the reply that waits", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startPhoneDaemon(onTestFinished, { clock, smsSkill: delayed });
  await daemon.text("Hello?");
  await daemon.text("Hello?", { from: bert });
  await eventually(async () => expect(await drafts(daemon)).toEqual([{ state: "queued" }, { state: "queued" }]));
  await daemon.text("Stop!");
  await eventually(async () => expect(await codes(daemon)).toEqual([{ code: "opt-out" }]));
  clock.forward(delay * 1000);
  await daemon.api.until(({ sent }) => sent.length > 0);
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([]);
  expect(daemon.textsTo(bert), "others are not concerned").toEqual([echoed("Hello?")]);
  expect(await codes(daemon)).toEqual([{ code: "opt-out" }]);
  expect(daemon.questions()).toHaveLength(2);
});

it.concurrent("a STOP concerns the number that it was sent to; so does an opt-out that the provider reports", async ({
  onTestFinished,
}) => {
  const second = "+12025550177";
  const daemon = await startPhoneDaemon(onTestFinished, { sms: { further_numbers: [second] } });
  await daemon.text("STOP");
  await daemon.text("To the second?", { to: second });
  await daemon.api.until(({ sent }) => sent.length === 1);
  await daemon.text("START", { to: second });
  await daemon.text("To the first?");
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([echoed("To the second?")]);
  daemon.api.fault({ fails: 21610 }, { times: 1 });
  await daemon.text("And now?", { to: second });
  const opted = "SELECT own_address, source FROM suppressions ORDER BY own_address";
  await eventually(async () =>
    expect(await daemon.rows(opted)).toEqual([
      { own_address: ourNumber, source: "stop" },
      { own_address: second, source: "provider" },
    ]),
  );
  await daemon.text("START");
  await daemon.text("To the first again?");
  await daemon.idle();
  expect(daemon.api.sent.at(-1)).toMatchObject({ from: ourNumber, body: echoed("To the first again?") });
});

it.concurrent("START lifts it, and the agent receives neither keyword", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("STOP");
  await daemon.text("One question");
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([]);
  await daemon.text("start");
  await daemon.text("Another one");
  await daemon.api.until(({ sent }) => sent.length > 0);
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([echoed("Another one")]);
  expect((await codes(daemon)).map(({ code }) => code)).toEqual(["opt-out", "suppressed", "opt-in"]);
  expect(daemon.questions().map(({ text }) => text)).toEqual(["Another one"]);
});

it.concurrent("answers HELP from the configuration, also to whom it says nothing else", async ({ onTestFinished }) => {
  const opt_out = { help_text: "Lumen Lamps. Reply STOP to end.", stop_text: "You are off the list." };
  const daemon = await startPhoneDaemon(onTestFinished, { sms: { opt_out }, smsSkill: { smsSignature: "The Team" } });
  const { message } = await daemon.text("STOP");
  await daemon.api.until(({ sent }) => sent.length === 1);
  await daemon.text("help");
  await daemon.api.until(({ sent }) => sent.length === 2);
  await daemon.api.repeat(message);
  await daemon.text("Hello?");
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([opt_out.stop_text, opt_out.help_text]);
  expect(daemon.questions().every(({ text }) => text === "Hello?")).toBe(true);
});

it.concurrent("applies the opt-out keyword that the provider recognized", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("please leave me alone", { more: { OptOutType: "STOP" } });
  await daemon.text("Hello?");
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([]);
  expect((await codes(daemon)).map(({ code }) => code)[0]).toBe("opt-out");
  expect(await daemon.rows("SELECT address, active FROM suppressions")).toEqual([{ address: anna, active: 1 }]);
});

it.concurrent("counts whole messages only", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("When does it stop raining?");
  await daemon.api.until(({ sent }) => sent.length === 1);
  expect(daemon.textsTo()).toEqual([echoed("When does it stop raining?")]);
});

it.concurrent("a delayed reply survives a restart, and so does a STOP", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startPhoneDaemon(onTestFinished, { clock, smsSkill: delayed });
  await daemon.text("Hello?");
  await daemon.text("Hello?", { from: bert });
  await eventually(async () => expect(await drafts(daemon)).toHaveLength(2));
  await daemon.text("STOP");
  await daemon.restart();
  expect(daemon.api.sent).toEqual([]);
  await eventually(async () => expect(await codes(daemon)).toEqual([{ code: "opt-out" }]));
  clock.forward(delay * 1000);
  await daemon.api.until(({ sent }) => sent.length > 0);
  await daemon.idle();
  expect([daemon.textsTo(), daemon.textsTo(bert)]).toEqual([[], [echoed("Hello?")]]);
});

it.concurrent("a newer text ends the reply that waits, where texts are joined", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startPhoneDaemon(onTestFinished, { clock, sms: { debounce: "200ms" }, smsSkill: delayed });
  await daemon.text("Hello?");
  await eventually(async () => expect(await drafts(daemon)).toEqual([{ state: "queued" }]));
  await daemon.text("Forget it, where is my lamp?");
  await eventually(async () => expect(await drafts(daemon)).toHaveLength(2));
  clock.forward(delay * 1000);
  await daemon.api.until(({ sent }) => sent.length > 0);
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([echoed("Forget it, where is my lamp?")]);
  expect(daemon.questions()).toHaveLength(2);
});

it.concurrent("applies an opt-out from a delivery receipt at once", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  daemon.api.fault({ fails: 21610 }, { times: 1 });
  await daemon.text("Hello?");
  await eventually(async () =>
    expect(await daemon.rows("SELECT address, active, strikes FROM suppressions")).toEqual([
      { address: anna, active: 1, strikes: 0 },
    ]),
  );
  await daemon.text("Still there?");
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
  expect(await drafts(daemon)).toEqual([{ state: "failed" }]);
  expect(daemon.questions()).toHaveLength(1);
});

it.concurrent("suppresses an unknown destination after its second failed text", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  daemon.api.fault({ fails: 30005 }, { times: 2 });
  const marks = () => daemon.rows("SELECT address, active, strikes FROM suppressions");
  await daemon.text("Hello?");
  await eventually(async () => expect(await marks()).toEqual([{ address: anna, active: 0, strikes: 1 }]));
  await daemon.text("Are you there?");
  await eventually(async () => expect(await marks()).toEqual([{ address: anna, active: 1, strikes: 2 }]));
});

it.concurrent("a request for no more texts counts as STOP, and a doubtful one waits for a human", async ({
  onTestFinished,
}) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("Please stop texting me");
  await daemon.api.until(({ sent }) => sent.length === 1);
  await daemon.text("I told you people to stop texting me about lamps", { from: bert });
  await eventually(async () =>
    expect(await codes(daemon)).toEqual([{ code: "opt-out" }, { code: "possible-opt-out" }]),
  );
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([expect.stringContaining("Reply START")]);
  expect(daemon.textsTo(bert)).toEqual([]);
  expect(daemon.questions()).toEqual([]);
  const held = await daemon.rows("SELECT state FROM events WHERE code = 'possible-opt-out'");
  expect(held).toEqual([{ state: "held" }]);
});

it.concurrent("a polite STOP counts, a worded one waits for a human, and other polite texts are answered", async ({
  onTestFinished,
}) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("Please unsubscribe");
  await daemon.api.until(({ sent }) => sent.length === 1);
  await daemon.text("I want to unsubscribe", { from: bert });
  await daemon.text("Please stop by at five", { from: "+12025550125" });
  await daemon.api.until(({ sent }) => sent.length === 2);
  await daemon.idle();
  expect(await codes(daemon)).toEqual([{ code: "opt-out" }, { code: "possible-opt-out" }]);
  expect(daemon.textsTo()).toEqual([expect.stringContaining("Reply START")]);
  expect(daemon.textsTo(bert)).toEqual([]);
  expect(daemon.questions().map(({ text }) => text)).toEqual(["Please stop by at five"]);
});

it.concurrent("YES is an answer, and START only after a STOP; a carrier's notice waits for a human", async ({
  onTestFinished,
}) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("yes");
  await daemon.api.until(({ sent }) => sent.length === 1);
  await daemon.text("STOP");
  await daemon.text("Yes!");
  await daemon.api.until(({ sent }) => sent.length === 2);
  await daemon.text("Free Msg: Unable to send message - Message Blocking is active.", { from: bert });
  await daemon.text("Where is it?");
  await daemon.api.until(({ sent }) => sent.length === 3);
  await daemon.idle();
  expect(daemon.textsTo()[1]).toContain("Reply STOP");
  expect(daemon.textsTo(bert)).toEqual([]);
  expect(await codes(daemon)).toEqual([{ code: "opt-out" }, { code: "opt-in" }, { code: "possible-auto-reply" }]);
  expect(daemon.questions().map(({ text }) => text)).toEqual(["yes", "Where is it?"]);
});

it.concurrent("a repeated or signed STOP counts, and one followed by a sentence waits for a human", async ({
  onTestFinished,
}) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("STOP STOP STOP");
  await daemon.text("Stop\n-Bert", { from: bert });
  await daemon.api.until(({ sent }) => sent.length === 2);
  await daemon.text("Stop. Wrong number", { from: "+12025550125" });
  await daemon.text("Bitte keine SMS mehr", { from: "+12025550126" });
  await daemon.text("Does the bus stop here?", { from: "+12025550127" });
  await daemon.api.until(({ sent }) => sent.length === 3);
  await daemon.idle();
  expect((await codes(daemon)).map(({ code }) => code).toSorted()).toEqual([
    "opt-out",
    "opt-out",
    "possible-opt-out",
    "possible-opt-out",
  ]);
  for (const to of [undefined, bert]) expect(daemon.textsTo(to)).toEqual([expect.stringContaining("Reply START")]);
  expect(daemon.questions().map(({ text }) => text)).toEqual(["Does the bus stop here?"]);
});

it.concurrent("an operator opts out the sender of a doubtful text, and the reply that waits is not sent", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const sms = { on_new_message: "send" };
  const daemon = await startPhoneDaemon(onTestFinished, { clock, sms, smsSkill: delayed });
  const opted = (...words: readonly string[]) =>
    inProcess(["opt-out", ...words, "--config", daemon.file], { ...daemon.env, USER: "dora" });
  await daemon.text("Hello?", { from: bert });
  await eventually(async () => expect(await drafts(daemon)).toEqual([{ state: "queued" }]));
  await daemon.text("I told you people to stop texting me about lamps", { from: bert });
  await eventually(async () => expect(await codes(daemon)).toEqual([{ code: "possible-opt-out" }]));
  const [held] = await daemon.rows<{ id: number }>("SELECT id FROM events WHERE state = 'held'");
  const added = await opted("add", String(held?.id), "--reason", "clear enough");
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining("replies that wait and are dropped: 1") });
  await daemon.text("Hello?");
  await eventually(async () => expect(await drafts(daemon)).toHaveLength(2));
  clock.forward(delay * 1000);
  await daemon.api.until(({ sent }) => sent.length > 0);
  await daemon.text("Are you there?", { from: bert });
  await daemon.idle();
  expect([daemon.textsTo(), daemon.textsTo(bert)]).toEqual([[echoed("Hello?")], []]);
  expect((await codes(daemon)).map(({ code }) => code)).toEqual(["possible-opt-out", "suppressed"]);
  expect((await opted("remove", "+1 202 555 0124", "--channel", "sms")).code).toBe(0);
  await daemon.text("Thanks for calling", { from: bert });
  await eventually(async () => expect(await drafts(daemon)).toHaveLength(3));
});
