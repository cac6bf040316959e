// The timers of a call start and end at every turn. They share one sleep for as long as it ends in time.

import type { Clock } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import type { VoiceConfig } from "../../../adapters/voice/config.ts";
import { Speaker, spokenLength } from "../../../adapters/voice/engine/speaking.ts";
import { ReplyWait, Silence } from "../../../adapters/voice/engine/timers.ts";
import { standardTiming } from "../../../adapters/voice/timing.ts";

/** A clock that stands still between `passes`. */
function stillClock() {
  let now = 0;
  const sleepers = new Set<{ readonly until: number; readonly wake: () => void }>();
  const sleeps: number[] = [];
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        sleeps.push(ms);
        const one = { until: now + ms, wake: () => void (sleepers.delete(one) && resolve()) };
        sleepers.add(one);
        signal?.addEventListener("abort", one.wake, { once: true });
      }),
  };
  const passes = async (ms: number) => {
    for (const end = now + ms; now < end; ) {
      now += 100;
      for (const { until, wake } of sleepers) if (until <= now) wake();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { clock, sleeps, sleepers, passes };
}

function timers() {
  const { clock, sleeps, sleepers, passes } = stillClock();
  const said: string[] = [];
  const speaker = new Speaker({
    clock,
    timing: standardTiming,
    rate: 15,
    language: () => null,
    write: async (command) => void ("text" in command && said.push(command.text.trim())),
  });
  const config = {
    fillers: { first: 1500, second: 5000, every: 5000 },
    give_up: { after: 30_000 },
    silence: { after: 10_000, asks: 2 },
  } as unknown as VoiceConfig;
  const failed = (error: unknown) => {
    throw error;
  };
  const parts = { clock, config, timing: standardTiming, speaker, failed };
  const waits = new ReplyWait(
    parts,
    () => ["one moment"],
    () => void said.push("sorry"),
  );
  const quiet = new Silence(
    parts,
    () => "still there?",
    () => false,
    () => void said.push("bye"),
  );
  onTestFinished(() => {
    waits.end();
    quiet.end();
    expect(sleepers.size).toBe(0);
  });
  return { speaker, waits, quiet, sleeps, said, passes };
}

it("sleep once for many turns in quick succession", async () => {
  const { waits, quiet, sleeps, said, passes } = timers();
  for (let turn = 0; turn < 10; turn += 1) {
    quiet.rest();
    waits.begin();
    waits.rest();
    quiet.watch();
    await passes(100);
  }
  expect(sleeps).toEqual([1500, 10_000]);
  await passes(9000);
  expect(said).toEqual([]);
  await passes(1500);
  expect(said).toEqual(["still there?"]);
});

it("fill the time from the start of the last question", async () => {
  const { waits, said, passes } = timers();
  waits.begin();
  await passes(1000);
  waits.rest();
  waits.begin();
  await passes(1000);
  expect(said).toEqual([]);
  await passes(1000);
  expect(said).toEqual(["one moment"]);
  await passes(4000);
  expect(said).toEqual(["one moment", "one moment"]);
  waits.rest();
  await passes(60_000);
  expect(said).toHaveLength(2);
});

it("give up at once when the question is older than any wait", async () => {
  const { waits, said, passes } = timers();
  waits.begin(1e15); // by a clock that was set in the meantime
  await passes(100);
  expect(said).toEqual(["sorry"]);
});

it.each([
  ["We are open.", 12],
  ["你好。", 7],
  ["ありがとう", 15],
  ["한국어 2", 11],
])("estimates the time of %s like that of %d letters", (text, letters) => {
  expect(spokenLength(text)).toBe(letters);
});

it("asks a silent caller only after an answer in Chinese was played", async () => {
  const { speaker, quiet, said, passes } = timers();
  await speaker.speak(["我们的营业时间是每天上午九点到下午五点。".repeat(4)]);
  quiet.watch();
  await passes(25_000);
  expect(said).toHaveLength(1);
  await passes(2000);
  expect(said.at(-1)).toBe("still there?");
});
