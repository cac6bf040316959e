// Many calls at once in one process: every caller is answered, each in a conversation of their own.

import { expect, it } from "vitest";
import type { PhoneCall } from "../../../src/sandbox/phone.ts";
import { eventually } from "../../support/clock.ts";
import { startPhoneDaemon } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";

const callers = 500;
const numberOf = (index: number): string => `+1202556${String(index).padStart(4, "0")}`;

it("answers 500 callers at the same time", { timeout: 600_000 }, async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished, {
    // No filler is played and no timeout expires, even on a slow machine.
    voice: {
      collect: "50ms",
      fillers: { first: "10m", second: "10m" },
      give_up: { after: "10m" },
      silence: { after: "10m" },
    },
    platform: { timeout: "10m" },
  });
  const calls: PhoneCall[] = await Promise.all(
    Array.from({ length: callers }, (_, index) => daemon.dial({ from: numberOf(index) }, 300_000)),
  );
  expect(calls.filter(({ state }) => state === "talking")).toHaveLength(callers);
  await Promise.all(
    calls.map(async (call, index) => {
      call.say(`I am number ${index}.`);
      await call.hears(echoed(`I am number ${index}.`), 500_000);
    }),
  );
  await Promise.all(calls.map((call) => call.hangUp()));
  await daemon.idle();
  const spoken = calls.map((call) => call.spoken.filter(({ by }) => by === "relay").map(({ text }) => text.trim()));
  expect(spoken).toEqual(calls.map((_, index) => [echoed(`I am number ${index}.`)]));
  expect(calls.flatMap(({ complaints }) => complaints)).toEqual([]);
  expect(new Set(daemon.questions().map(({ conversation }) => conversation)).size).toBe(callers);
  expect(daemon.questions()).toHaveLength(callers);
  // A line that ends may be stored before the provider's word that the call has ended.
  const states = "SELECT state, count(*) AS count FROM sessions GROUP BY state";
  await eventually(async () => expect(await daemon.rows(states)).toEqual([{ state: "closed", count: callers }]));
});

it("answers a call while texts occupy every connection of their own", async ({ onTestFinished }) => {
  const texts = 140; // more than the client's own default
  const daemon = await startPhoneDaemon(onTestFinished, {
    sms: { concurrency: texts },
    voice: { collect: "50ms", give_up: { after: "10m" }, silence: { after: "10m" } },
    platform: { timeout: "10m" },
  });
  daemon.model.hold();
  const call = await daemon.dial();
  await Promise.all(Array.from({ length: texts + 20 }, (_, index) => daemon.text("Hello?", { from: numberOf(index) })));
  await eventually(() => expect(daemon.model.asked()).toBe(texts));
  call.say("Where is my lamp?");
  await eventually(() => expect(daemon.model.asked()).toBe(texts + 1));
  daemon.model.release();
  await call.hears(echoed("Where is my lamp?"));
  await call.hangUp();
  await daemon.idle();
});

it("gives calls more connections when a reload allows more calls", async ({ onTestFinished }) => {
  const voice: { [key: string]: unknown } = {
    collect: "50ms",
    concurrency: 1,
    fillers: { first: "10m", second: "10m" },
    give_up: { after: "10m" },
    silence: { after: "10m" },
  };
  const daemon = await startPhoneDaemon(onTestFinished, {
    sms: { enabled: false },
    voice,
    platform: { timeout: "10m" },
  });
  daemon.model.hold();
  voice["concurrency"] = 40;
  await daemon.app().reload(await daemon.config());
  const calls = await Promise.all(Array.from({ length: 40 }, (_, index) => daemon.dial({ from: numberOf(index) })));
  for (const call of calls) call.say("Hello?");
  await eventually(() => expect(daemon.model.asked()).toBe(40));
  daemon.model.release();
  await Promise.all(calls.map((call) => call.hears(echoed("Hello?"))));
  await Promise.all(calls.map((call) => call.hangUp()));
});
