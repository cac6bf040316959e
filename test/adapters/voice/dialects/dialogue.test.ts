// Turn-taking belongs to the engine, so it is the same in every dialect: the rest of a reply, back-channels, the played
// part of a reply, and the end.

import { describe, expect, it } from "vitest";
import {
  dialedFixture,
  type Frame,
  type Line,
  openVoiceFixture,
  type Switchboard,
  sessionHistory,
  switchboard,
} from "../../../support/voice/adapter.ts";
import { jambonzCall } from "../../../support/voice/jambonz.ts";

const offer = "There is more to say about it. Shall I go on?";
const long = "One is first. Two is second. Three is third.";
const spokenNote = `"One is first. Two is second. ${offer}" (the rest was not spoken)`;
const common = {
  greeting: "Hello.",
  max_sentences: 2,
  collect: "20ms",
  fillers: { first: "30s" },
  silence: { after: "60s" },
  speaking_rate: 40,
};

/** A provider as its caller meets it. */
interface Caller {
  readonly board: Switchboard;
  /** The caller speaks once our text has been played completely. */
  readonly speaks: (text: string) => Promise<void>;
  /** Resolves when that was spoken so often. */
  readonly heard: (part: string, times?: number) => Promise<void>;
  /** Resolves when we end the call. */
  readonly ended: () => Promise<unknown>;
}

async function callBehind(dialect: "jambonz" | "retell"): Promise<Caller> {
  return dialect === "jambonz" ? jambonz() : retell();
}

async function jambonz(): Promise<Caller> {
  const board = await switchboard({
    ...common,
    dialect: "jambonz",
    jambonz: { user: "jambonz", password: "a-password" },
  });
  const authorization = `Basic ${Buffer.from("jambonz:a-password").toString("base64")}`;
  const line = await board.dial("/relay", { headers: { authorization }, protocols: ["ws.jambonz.org"] });
  const phone = jambonzCall(line);
  phone.begin();
  const sentTexts = () =>
    line.frames.flatMap((frame) => (frame["data"] ?? []) as Frame[]).flatMap(({ text }) => (text ? [text] : []));
  const allPlayed = () =>
    expect.poll(() => phone.played.length === sentTexts().length && phone.played.length > 0).toBe(true);
  await allPlayed();
  return {
    board,
    async speaks(text) {
      await allPlayed();
      phone.speak(text);
    },
    heard: (part, times = 1) => expect.poll(() => phone.played.join(" ").split(part).length - 1).toBe(times),
    ended: () =>
      line.until("hangup", (frame) => ((frame["data"] ?? []) as Frame[]).some(({ verb }) => verb === "hangup")),
  };
}

async function retell(): Promise<Caller> {
  const secret = "a-secret-of-some-length";
  const board = await switchboard({ ...common, dialect: "retell", retell: { secret } });
  const line: Line = await board.dial(`/llm/${secret}/call_1`);
  line.say({
    interaction_type: "call_details",
    call: { call_id: "call_1", direction: "inbound", from_number: "+15005550001", to_number: "+15005550006" },
  });
  await line.until("greeting", ({ response_type: type }) => type === "response");
  const transcript: { role: string; content: string; words: [] }[] = [];
  let [taken, id] = [0, 0];
  const contents = () => line.frames.flatMap(({ content }) => (typeof content === "string" ? [content] : []));
  return {
    board,
    async speaks(text) {
      const ours = contents().slice(taken).join("");
      taken = contents().length;
      transcript.push({ role: "agent", content: ours, words: [] }, { role: "user", content: text, words: [] });
      line.say({ interaction_type: "response_required", response_id: ++id, transcript });
    },
    heard: (part, times = 1) => expect.poll(() => contents().join("").split(part).length - 1).toBe(times),
    ended: () => line.until("end_call", (frame) => frame["end_call"] === true),
  };
}

describe.each(["jambonz", "retell"] as const)("behind %s", (dialect) => {
  it("the rest of an answer follows a yes, and is dropped for another question", async () => {
    const { board, speaks, heard } = await callBehind(dialect);
    await speaks("Tell me.");
    await board.heard();
    await board.answer(long);
    await heard(offer);
    await speaks("Yes, please.");
    await heard("Three is third.");
    expect(board.channel.messages).toHaveLength(1);
    await speaks("Tell me again.");
    await board.heard(1);
    await board.answer(long);
    await heard(offer, 2);
    await speaks("When do you open?");
    await board.heard(2);
    expect(board.channel.messages[2]?.notes).toEqual({ "caller heard": spokenNote });
  });

  it("the call ends after the goodbyes of both sides", async () => {
    const { board, speaks, ended } = await callBehind(dialect);
    await speaks("That's all, thanks. Bye!");
    await board.heard();
    await board.answer("You are welcome. Goodbye!");
    await ended();
    await expect.poll(() => sessionHistory(board.channel)).toContain("closed goodbye");
  });

  it("a back-channel after a statement asks nothing", async () => {
    const { board, speaks, heard } = await callBehind(dialect);
    await speaks("Tell me.");
    await board.heard();
    await board.answer("It is on its way.");
    await heard("on its way.");
    await speaks("Mhm.");
    await speaks("And when?");
    expect(await board.heard(1)).toBe("And when?");
    expect(board.channel.messages).toHaveLength(2);
  });
});

describe("behind gather", () => {
  const gather = async () => {
    const fixture = await openVoiceFixture({
      config: { dialect: "gather", max_sentences: 2 },
      phone: { pace: 1 },
    });
    const call = await fixture.dial();
    const texts = () => call.spoken.map(({ text }) => text);
    const speaks = async (text: string) => {
      await call.until((one) => one.state === "gathering");
      call.say(text);
    };
    const asks = async (text: string) => {
      const before = fixture.channel.messages.length;
      await speaks(text);
      await fixture.channel.until(text, ({ messages }) => messages.length > before);
    };
    const answers = async (text: string) => {
      const before = call.spoken.length;
      await expect.poll(async () => (await fixture.answer(call, text)).kind).toBe("sent");
      await call.until((one) => one.spoken.length > before);
      await fixture.clock.passes(0);
    };
    await fixture.clock.passes(5000);
    return { rig: fixture, call, texts, speaks, asks, answers };
  };

  it("the rest of an answer follows a yes, and is dropped for another question", async () => {
    const { rig: fixture, call, texts, speaks, asks, answers } = await gather();
    await asks("Tell me.");
    await answers(long);
    await fixture.clock.passes(10_000);
    expect(texts().slice(-3)).toEqual(["One is first.", "Two is second.", offer]);
    await speaks("Yes, please.");
    await call.until(() => texts().at(-1) === "Three is third.");
    expect(fixture.channel.messages).toHaveLength(1);
    await fixture.clock.passes(10_000);
    await asks("Tell me again.");
    await answers(long);
    await fixture.clock.passes(10_000);
    await asks("When do you open?");
    expect(fixture.channel.messages.at(-1)?.notes).toEqual({ "caller heard": spokenNote });
    await answers("At nine.");
    expect(call.complaints).toEqual([]);
  });

  it("the call ends after the goodbyes of both sides", async () => {
    const { rig: fixture, call, texts, asks, answers } = await gather();
    await asks("That's all, thanks. Bye!");
    await answers("You are welcome. Goodbye!");
    expect(await call.over).toBe("hangup");
    expect(texts().at(-1)).toBe("Goodbye!");
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "goodbye" }]);
  });

  it("a back-channel that cut us short leads on, and after a statement asks nothing", async () => {
    const { rig: fixture, call, texts, speaks, asks, answers } = await gather();
    await asks("Tell me.");
    await answers("This is a rather long first sentence. This is the second one.");
    await fixture.clock.passes(4500); // the first sentence was heard
    await speaks("Mhm");
    await call.until(() => texts().filter((text) => text === "This is the second one.").length === 2);
    expect(texts().filter((text) => text.includes("first sentence"))).toHaveLength(1);
    await fixture.clock.passes(10_000);
    const gathers = () => call.verbs.filter(({ name }) => name === "Gather").length;
    const before = gathers();
    await speaks("Mhm");
    await call.until(() => gathers() > before);
    await asks("And when?");
    expect(fixture.channel.messages.map(({ text }) => text)).toEqual(["Tell me.", "And when?"]);
    await answers("On Monday.");
  });

  it("the played part is estimated, and passed with the next question", async () => {
    const { rig: fixture, asks, answers } = await gather();
    await asks("Tell me.");
    await answers("This is a rather long first sentence. This is the second one.");
    await fixture.clock.passes(4700);
    await asks("Why so?");
    expect(fixture.channel.messages.at(-1)?.notes).toEqual({
      "caller heard": '"This is a rather long first sentence." (interrupted)',
    });
    await answers("Because.");
  });

  it("an agent that is not asked now is not waited for", async () => {
    const { fixture, call } = await dialedFixture({ active: false, config: { dialect: "gather" }, phone: { pace: 1 } });
    expect(await call.over).toBe("hangup");
    expect(call.spoken.map(({ text }) => text)).toEqual([
      "I am sorry, I cannot answer that right now.",
      "Thank you for calling. Goodbye.",
    ]);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "no-answer" }]);
  });
});
