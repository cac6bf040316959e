// Calls through the whole daemon: a caller over Twilio's ConversationRelay, the agent, and what lies between them.

import { describe, expect, it } from "vitest";
import { eventually } from "../support/clock.ts";
import { type LinesWorld, openLines } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";

const sessions = (world: LinesWorld) =>
  world.rows("SELECT id, state, reason, openings, duration FROM sessions ORDER BY opened_at");
const sessionIs = (world: LinesWorld, expected: object) =>
  eventually(async () => expect((await sessions(world)).at(-1)).toMatchObject(expected));
const asked = (world: LinesWorld) => world.questions().map(({ text }) => text);
const quick = { collect: "50ms", speaking_rate: 40 };

describe("a call", () => {
  it.concurrent("is greeted, answered and over", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished, { voice: quick });
    const call = await world.dial();
    await call.hears("Hello, how can I help?");
    call.say("Where is my lamp?");
    expect(await call.hears(echoed("Where is my lamp?"))).toMatchObject({ by: "relay" });
    await call.until(({ spoken }) => spoken.at(-1)?.done);
    await call.hangUp();
    await sessionIs(world, { id: call.sid, state: "closed", reason: "hung-up", openings: 1 });
    expect((await sessions(world))[0]?.["duration"]).toBeGreaterThan(0);
    await world.idle();
    expect(asked(world)).toEqual(["Where is my lamp?"]);
    expect(await world.rows("SELECT state FROM drafts")).toEqual([{ state: "sent" }]);
    expect(call.complaints).toEqual([]);
    expect(call.requests.map(({ posted }) => posted.status)).toEqual([200, 200]);
  });

  it.concurrent("has one log line per hop of a turn, under the trace of its message", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished, { voice: quick });
    const call = await world.dial();
    call.say("Where is my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await call.hangUp();
    await sessionIs(world, { id: call.sid, state: "closed" });
    await world.idle();
    const received = world.log.find(({ message }) => message === "message received");
    const { trace } = received?.fields ?? {};
    await eventually(() =>
      expect(world.log.filter(({ fields }) => fields["trace"] === trace).map(({ message }) => message)).toEqual([
        "message received",
        "question asked",
        "question answered",
        "reply queued",
        "reply sent",
      ]),
    );
    const calls = world.log.filter(({ message }) => message === "call state changed");
    expect(calls.map(({ fields }) => fields["state"])).toContain("closed");
    expect(calls[0]?.fields).toMatchObject({ state: "opened" });
    expect(calls[0]?.fields).toMatchObject({ session: call.sid, conversation: expect.any(String) as string });
  });

  it.concurrent("goes on with the person's conversation, and a text does not", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished, { voice: quick });
    for (const words of ["First", "Second"]) {
      const call = await world.dial();
      call.say(words);
      await call.hears(echoed(words));
      await call.hangUp();
      await sessionIs(world, { id: call.sid, state: "closed" });
    }
    await world.text("Third");
    await world.api.until(({ sent }) => sent.length === 1);
    const conversations = world.questions().map(({ conversation }) => conversation);
    expect(conversations[1]).toBe(conversations[0]);
    expect(conversations[2]).not.toBe(conversations[0]);
  });

  it.concurrent("needs no VOICE skill: the conversation is created, and the platform places no call", async ({
    onTestFinished,
  }) => {
    // A call that is not asked ends in an apology after the default 25 s.
    const world = await openLines(onTestFinished, { voice: quick, skills: { voice: undefined } });
    expect(world.channel("voice")).toMatchObject({ state: "ready", not_asking: null });
    const call = await world.dial();
    call.say("Where is my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await call.hangUp();
    await world.idle();
    expect(world.front.calls.filter(({ path }) => path.endsWith("/conversations/start"))).toEqual([]);
  });

  it.concurrent("is taken from somebody who withholds the number", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished, { voice: quick });
    const call = await world.dial({ from: "anonymous" });
    call.say("Guess who");
    await call.hears(echoed("Guess who"));
    await call.hangUp();
  });

  it.concurrent("debounces utterances in quick succession", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished, { voice: { collect: "3s" } });
    const call = await world.dial();
    call.say("Where is");
    call.say("my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await call.hangUp();
    expect(asked(world)).toEqual(["Where is my lamp?"]);
  });

  it.concurrent("fills the time of a slow agent, and never in the agent's history", async ({ onTestFinished }) => {
    const fillers = { first: "200ms", second: "500ms", every: "300ms" };
    const phrases = [{ language: "en", fillers: ["Filler one.", "Filler two.", "Filler three."] }];
    const world = await openLines(onTestFinished, { voice: { ...quick, fillers, phrases } });
    world.model.hold();
    const call = await world.dial();
    call.say("Where is my lamp?");
    await call.hears("Filler two.");
    world.model.release();
    const { text } = await call.hears(echoed("Where is my lamp?"));
    expect(text.indexOf("Filler one.")).toBeLessThan(text.indexOf("Filler two."));
    expect(text.indexOf("Filler two.")).toBeLessThan(text.indexOf("You asked"));
    call.say("And now?");
    await call.hears(echoed("And now?"));
    expect(asked(world)).toEqual(["Where is my lamp?", "And now?"]);
    await call.hangUp();
  });
});

describe("a caller who talks over us", () => {
  it.concurrent("is heard: what was spoken until then is kept", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished, { voice: quick });
    const call = await world.dial();
    call.say("Where is my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await world.idle();
    call.interrupt("You asked");
    call.say("Never mind");
    await call.hears(echoed("Never mind"));
    await eventually(async () =>
      expect((await world.rows("SELECT heard FROM drafts ORDER BY id"))[0]).toEqual({ heard: "You asked" }),
    );
    await call.hangUp();
  });

  it.concurrent("makes the question before obsolete: its answer is never spoken", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished, { voice: quick, platform: { timeout: "10m" } });
    world.model.hold();
    const call = await world.dial();
    call.say("Old question");
    await eventually(() => expect(world.model.asked()).toBe(1));
    call.say("New question");
    await eventually(() => expect(world.model.asked()).toBe(2));
    world.model.release();
    await call.hears(echoed("New question"));
    await world.idle();
    expect(call.spoken.map(({ text }) => text).join(" ")).not.toContain("Old question");
    expect(await world.rows("SELECT state FROM turns WHERE question <> '' ORDER BY id")).toEqual([
      { state: "dropped" },
      { state: "answered" },
    ]);
    await call.hangUp();
  });
});

describe("a line that breaks", () => {
  it.concurrent("is taken up again in the same conversation, and the answer is spoken there", async ({
    onTestFinished,
  }) => {
    const phrases = [{ language: "en", lost_you: "I lost you." }];
    const world = await openLines(onTestFinished, {
      voice: { ...quick, phrases },
      platform: { timeout: "10m" },
    });
    const call = await world.dial();
    call.say("First question");
    await call.hears(echoed("First question"));
    world.model.hold();
    call.say("Second question");
    await eventually(() => expect(world.model.asked()).toBe(2));
    call.cut();
    await call.until(({ connections }) => connections === 2);
    await call.hears("I lost you.");
    world.model.release();
    await call.hears(echoed("Second question"));
    await call.hangUp();
    await sessionIs(world, { id: call.sid, state: "closed", openings: 2 });
    expect(new Set(world.questions().map(({ conversation }) => conversation)).size).toBe(1);
    expect(asked(world)).toEqual(["First question", "Second question"]);
  });

  it.concurrent.each([
    ["is killed", 0],
    ["is stopped", 1000],
  ])("because the daemon %s: the next one goes on with the call", async (_how, drainMs) => {
    await using world = await opened();
    const call = await world.dial();
    call.say("First question");
    await call.hears(echoed("First question"));
    world.model.hold();
    call.say("Second question");
    await eventually(() => expect(world.model.asked()).toBe(2));
    await world.restart(drainMs);
    await call.until(({ connections }) => connections === 2);
    world.model.release();
    await call.hears(echoed("Second question"));
    call.say("Third question");
    await call.hears(echoed("Third question"));
    await call.hangUp();
    await sessionIs(world, { id: call.sid, state: "closed", openings: 2 });
    await world.idle();
    expect(asked(world)).toEqual(["First question", "Second question", "Third question"]);
    expect(new Set(world.questions().map(({ conversation }) => conversation)).size).toBe(1);
  });

  it.concurrent("too often ends with an apology", async ({ onTestFinished }) => {
    const phrases = [{ language: "en", apology: "This does not work." }];
    const world = await openLines(onTestFinished, {
      voice: { ...quick, phrases, resume: { times: 1 } },
    });
    const call = await world.dial();
    call.cut();
    await call.until(({ connections }) => connections === 2);
    call.cut();
    await call.hears("This does not work.");
    expect(await call.over).toBe("hangup");
    await sessionIs(world, { state: "closed", openings: 2 });
  });
});

/** For a test with a table, which has no context. */
async function opened(): Promise<LinesWorld & AsyncDisposable> {
  const undo: (() => unknown)[] = [];
  const world = await openLines((one) => void undo.push(one), {
    voice: quick,
    platform: { timeout: "10m" },
    // Pauses are there for the next daemon to come.
    phone: { pace: 0.5 },
  });
  return {
    ...world,
    [Symbol.asyncDispose]: async () => {
      for (const one of undo) await one();
    },
  };
}
