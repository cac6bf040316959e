// Calls through the whole daemon: a caller over Twilio's ConversationRelay, the agent, and what lies between them.

import { describe, expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import { type PhoneDaemon, startPhoneDaemon } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";

const sessions = (daemon: PhoneDaemon) =>
  daemon.rows("SELECT id, state, reason, openings, duration FROM sessions ORDER BY opened_at");
const sessionIs = (daemon: PhoneDaemon, expected: object) =>
  eventually(async () => expect((await sessions(daemon)).at(-1)).toMatchObject(expected));
const asked = (daemon: PhoneDaemon) => daemon.questions().map(({ text }) => text);
const quick = { collect: "50ms", speaking_rate: 40 };

describe("a call", () => {
  it.concurrent("is greeted, answered and over", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished, { voice: quick });
    const call = await daemon.dial();
    await call.hears("Hello, how can I help?");
    call.say("Where is my lamp?");
    expect(await call.hears(echoed("Where is my lamp?"))).toMatchObject({ by: "relay" });
    await call.until(({ spoken }) => spoken.at(-1)?.done);
    await call.hangUp();
    await sessionIs(daemon, { id: call.sid, state: "closed", reason: "hung-up", openings: 1 });
    expect((await sessions(daemon))[0]?.["duration"]).toBeGreaterThan(0);
    await daemon.idle();
    expect(asked(daemon)).toEqual(["Where is my lamp?"]);
    expect(await daemon.rows("SELECT state FROM drafts")).toEqual([{ state: "sent" }]);
    expect(call.complaints).toEqual([]);
    expect(call.requests.map(({ posted }) => posted.status)).toEqual([200, 200]);
  });

  it.concurrent("has one log line per hop of a turn, under the trace of its message", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished, { voice: quick });
    const call = await daemon.dial();
    call.say("Where is my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await call.hangUp();
    await sessionIs(daemon, { id: call.sid, state: "closed" });
    await daemon.idle();
    const received = daemon.log.find(({ message }) => message === "message received");
    const { trace } = received?.fields ?? {};
    await eventually(() =>
      expect(daemon.log.filter(({ fields }) => fields["trace"] === trace).map(({ message }) => message)).toEqual([
        "message received",
        "question asked",
        "question answered",
        "reply queued",
        "reply sent",
      ]),
    );
    const calls = daemon.log.filter(({ message }) => message === "call state changed");
    const [end] = calls.filter(({ fields }) => fields["state"] === "closed");
    expect(end?.fields).toMatchObject({ code: "hung-up" });
    expect(calls[0]?.fields).toMatchObject({ state: "opened" });
    expect(calls[0]?.fields).toMatchObject({ session: call.sid, conversation: expect.any(String) as string });
  });

  it.concurrent("continues the person's conversation, and a text does not", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished, { voice: quick });
    for (const words of ["First", "Second"]) {
      const call = await daemon.dial();
      call.say(words);
      await call.hears(echoed(words));
      await call.hangUp();
      await sessionIs(daemon, { id: call.sid, state: "closed" });
    }
    await daemon.text("Third");
    await daemon.api.until(({ sent }) => sent.length === 1);
    const conversations = daemon.questions().map(({ conversation }) => conversation);
    expect(conversations[1]).toBe(conversations[0]);
    expect(conversations[2]).not.toBe(conversations[0]);
  });

  it.concurrent("needs no VOICE skill: the conversation is created, and the platform places no call", async ({
    onTestFinished,
  }) => {
    // A call that is not asked ends in an apology after the default 25 s.
    const daemon = await startPhoneDaemon(onTestFinished, { voice: quick, skills: { voice: undefined } });
    expect(daemon.channel("voice")).toMatchObject({ state: "ready", not_asking: null });
    const call = await daemon.dial();
    call.say("Where is my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await call.hangUp();
    await daemon.idle();
    expect(daemon.proxy.calls.filter(({ path }) => path.endsWith("/conversations/start"))).toEqual([]);
  });

  it.concurrent("is accepted from a caller who withholds the number", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished, { voice: quick });
    const call = await daemon.dial({ from: "anonymous" });
    call.say("Guess who");
    await call.hears(echoed("Guess who"));
    await call.hangUp();
  });

  it.concurrent("debounces utterances in quick succession", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished, { voice: { collect: "3s" } });
    const call = await daemon.dial();
    call.say("Where is");
    call.say("my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await call.hangUp();
    expect(asked(daemon)).toEqual(["Where is my lamp?"]);
  });

  it.concurrent("fills the time of a slow agent, and never in the agent's history", async ({ onTestFinished }) => {
    const fillers = { first: "200ms", second: "500ms", every: "300ms" };
    const phrases = [{ language: "en", fillers: ["Filler one.", "Filler two.", "Filler three."] }];
    const daemon = await startPhoneDaemon(onTestFinished, { voice: { ...quick, fillers, phrases } });
    daemon.model.hold();
    const call = await daemon.dial();
    call.say("Where is my lamp?");
    await call.hears("Filler two.");
    daemon.model.release();
    const { text } = await call.hears(echoed("Where is my lamp?"));
    expect(text.indexOf("Filler one.")).toBeLessThan(text.indexOf("Filler two."));
    expect(text.indexOf("Filler two.")).toBeLessThan(text.indexOf("You asked"));
    call.say("And now?");
    await call.hears(echoed("And now?"));
    expect(asked(daemon)).toEqual(["Where is my lamp?", "And now?"]);
    await call.hangUp();
  });
});

describe("a caller who talks over us", () => {
  it.concurrent("is recorded: the text spoken until then is kept", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished, { voice: quick });
    const call = await daemon.dial();
    call.say("Where is my lamp?");
    await call.hears(echoed("Where is my lamp?"));
    await daemon.idle();
    call.interrupt("You asked");
    call.say("Never mind");
    await call.hears(echoed("Never mind"));
    await eventually(async () =>
      expect((await daemon.rows("SELECT heard FROM drafts ORDER BY id"))[0]).toEqual({ heard: "You asked" }),
    );
    await call.hangUp();
  });

  it.concurrent("makes the question before obsolete: its answer is never spoken", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished, { voice: quick, platform: { timeout: "10m" } });
    daemon.model.hold();
    const call = await daemon.dial();
    call.say("Old question");
    await eventually(() => expect(daemon.model.asked()).toBe(1));
    call.say("New question");
    await eventually(() => expect(daemon.model.asked()).toBe(2));
    daemon.model.release();
    await call.hears(echoed("New question"));
    await daemon.idle();
    expect(call.spoken.map(({ text }) => text).join(" ")).not.toContain("Old question");
    expect(await daemon.rows("SELECT state FROM turns WHERE question <> '' ORDER BY id")).toEqual([
      { state: "dropped" },
      { state: "answered" },
    ]);
    await call.hangUp();
  });
});

describe("a line that breaks", () => {
  it.concurrent("is resumed in the same conversation, and the answer is spoken there", async ({ onTestFinished }) => {
    const phrases = [{ language: "en", lost_you: "I lost you." }];
    const daemon = await startPhoneDaemon(onTestFinished, {
      voice: { ...quick, phrases },
      platform: { timeout: "10m" },
    });
    const call = await daemon.dial();
    call.say("First question");
    await call.hears(echoed("First question"));
    daemon.model.hold();
    call.say("Second question");
    await eventually(() => expect(daemon.model.asked()).toBe(2));
    call.cut();
    await call.until(({ connections }) => connections === 2);
    await call.hears("I lost you.");
    daemon.model.release();
    await call.hears(echoed("Second question"));
    await call.hangUp();
    await sessionIs(daemon, { id: call.sid, state: "closed", openings: 2 });
    expect(new Set(daemon.questions().map(({ conversation }) => conversation)).size).toBe(1);
    expect(asked(daemon)).toEqual(["First question", "Second question"]);
  });

  it.concurrent.each([
    ["is killed", 0],
    ["is stopped", 1000],
  ])("because the daemon %s: the next one continues the call", async (_how, drainMs) => {
    await using daemon = await opened();
    const call = await daemon.dial();
    call.say("First question");
    await call.hears(echoed("First question"));
    daemon.model.hold();
    call.say("Second question");
    await eventually(() => expect(daemon.model.asked()).toBe(2));
    await daemon.restart(drainMs);
    await call.until(({ connections }) => connections === 2);
    daemon.model.release();
    await call.hears(echoed("Second question"));
    call.say("Third question");
    await call.hears(echoed("Third question"));
    await call.hangUp();
    await sessionIs(daemon, { id: call.sid, state: "closed", openings: 2 });
    await daemon.idle();
    expect(asked(daemon)).toEqual(["First question", "Second question", "Third question"]);
    expect(new Set(daemon.questions().map(({ conversation }) => conversation)).size).toBe(1);
  });

  it.concurrent("too often ends with an apology", async ({ onTestFinished }) => {
    const phrases = [{ language: "en", apology: "This does not work." }];
    const daemon = await startPhoneDaemon(onTestFinished, {
      voice: { ...quick, phrases, resume: { times: 1 } },
    });
    const call = await daemon.dial();
    call.cut();
    await call.until(({ connections }) => connections === 2);
    call.cut();
    await call.hears("This does not work.");
    expect(await call.over).toBe("hangup");
    await sessionIs(daemon, { state: "closed", openings: 2 });
  });
});

/** For a test with a table, which has no context. */
async function opened(): Promise<PhoneDaemon & AsyncDisposable> {
  const undo: (() => unknown)[] = [];
  const daemon = await startPhoneDaemon((one) => void undo.push(one), {
    voice: quick,
    platform: { timeout: "10m" },
    // Pauses are there for the next daemon to come.
    phone: { pace: 0.5 },
  });
  return {
    ...daemon,
    [Symbol.asyncDispose]: async () => {
      for (const one of undo) await one();
    },
  };
}
