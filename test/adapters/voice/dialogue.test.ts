// The course of a call beyond single questions: long answers in portions, back-channels, interruptions, and the end.

import { describe, expect, it } from "vitest";
import type { PhoneCall } from "../../../src/sandbox/phone.ts";
import { dialedFixture, type VoiceFixture } from "../../support/voice/adapter.ts";

const offer = "There is more to say about it. Shall I go on?";
const long = "One is first. Two is second. Three is third. Four is fourth. Five is fifth.";
const texts = (call: PhoneCall) => call.spoken.map(({ text }) => text.trim());
const asked = (fixture: VoiceFixture) => fixture.channel.messages.map(({ text }) => text);
const notes = (fixture: VoiceFixture) => fixture.channel.messages.at(-1)?.notes;
const closed = (fixture: VoiceFixture) => fixture.sessions("closed").map(({ reason }) => reason);

/** A call whose first question was answered; `passes`: time after it, else the answer is still being spoken. */
async function answered(text: string, options: { config?: object; question?: string; passes?: number } = {}) {
  const { fixture, call } = await dialedFixture({ config: { max_sentences: 2, ...options.config } });
  await fixture.clock.passes(2000);
  await fixture.says(call, options.question ?? "Tell me about it.");
  await fixture.answer(call, text);
  await call.until((one) => one.spoken.at(-1)?.done);
  await fixture.clock.passes(options.passes ?? 0);
  return { rig: fixture, call };
}
/** The caller says it; nothing need follow. */
async function mutters(fixture: VoiceFixture, call: PhoneCall, text: string): Promise<void> {
  call.say(text);
  await fixture.clock.passes(1000);
}

describe("sentences beyond max_sentences", () => {
  it("are kept and spoken, portion by portion, when the caller says yes", async () => {
    const { rig: fixture, call } = await answered(long, { passes: 8000 });
    expect(texts(call).at(-1)).toBe(`One is first. Two is second. ${offer}`);
    await mutters(fixture, call, "Yes, please.");
    expect(texts(call).at(-1)).toBe(`Three is third. Four is fourth. ${offer}`);
    await fixture.clock.passes(8000);
    await mutters(fixture, call, "Go on!");
    expect(texts(call).at(-1)).toBe("Five is fifth.");
    expect(asked(fixture)).toEqual(["Tell me about it."]);
    await fixture.clock.passes(4000);
    // Nothing is left to go on with: now it is a message.
    await fixture.says(call, "Go on.");
    expect(asked(fixture)).toEqual(["Tell me about it.", "Go on."]);
    expect(notes(fixture)).toBeUndefined();
    expect(call.complaints).toEqual([]);
  });

  it("are spoken when the yes comes while the offer is still being made", async () => {
    const { rig: fixture, call } = await answered(long, { passes: 4500 });
    await mutters(fixture, call, "Sure");
    expect(texts(call).at(-1)).toBe(`Three is third. Four is fourth. ${offer}`);
  });

  it("are dropped when the caller asks something else, and the agent receives the played part", async () => {
    const { rig: fixture, call } = await answered(long, { passes: 8000 });
    await fixture.says(call, "When do you open?");
    expect(notes(fixture)).toEqual({
      "caller heard": `"One is first. Two is second. ${offer}" (the rest was not spoken)`,
    });
    await fixture.answer(call, "At nine.");
    await fixture.clock.passes(3000);
    await fixture.says(call, "Yes");
    expect(notes(fixture)).toBeUndefined();
    expect(texts(call).join()).not.toContain("Three");
  });

  it("survive a silence: the offer still stands after the caller was asked whether anybody is there", async () => {
    const { rig: fixture, call } = await answered(long, { passes: 18_000 });
    expect(texts(call).at(-1)).toBe("Are you still there?");
    await fixture.clock.passes(2000);
    await mutters(fixture, call, "Yes");
    expect(texts(call).at(-1)).toBe(`Three is third. Four is fourth. ${offer}`);
  });
});

describe("the end of a call", () => {
  const goodbye = "You are welcome. Thank you for calling, goodbye!";

  it("follows the agent's goodbye when the caller says goodbye: spoken to its end, then hung up", async () => {
    const { rig: fixture, call } = await answered(goodbye, { question: "Okay, thanks. Bye!" });
    await fixture.clock.passes(2000);
    expect(closed(fixture)).toEqual([]); // the words take longer
    await fixture.clock.passes(4000);
    expect(closed(fixture)).toEqual(["goodbye"]);
    await call.over;
    expect(texts(call).at(-1)).toBe(goodbye);
    expect(call.complaints).toEqual([]);
  });

  it.each([
    ["the caller wants to go on", "Where is my lamp?", goodbye],
    ["the agent has a question left", "Thanks, bye.", "Before you say goodbye, may I have your number?"],
    ["the goodbye is in mid-sentence", "Thanks, bye.", "We said goodbye to that offer last year."],
    ["only a sentence before the last is one", "Thanks, bye.", "Goodbye! One thing is left: your address."],
    ["there is more to say", "Thanks, bye.", `Goodbye. Well. ${goodbye}`],
  ])("does not follow when %s", async (_, question, answer) => {
    const { rig: fixture } = await answered(answer, { question, passes: 8000 });
    expect(closed(fixture)).toEqual([]);
  });

  it("does not come when the caller speaks up under the goodbye", async () => {
    const { rig: fixture, call } = await answered(goodbye, { question: "That's all, thank you." });
    call.interrupt("You are welcome.");
    await fixture.says(call, "Wait, when do you open?");
    await fixture.answer(call, "At nine.");
    await call.hears("At nine.");
    await fixture.clock.passes(5000);
    expect(closed(fixture)).toEqual([]);
  });

  it("comes at once when the caller's bye meets ours, and asks nothing more", async () => {
    const { rig: fixture, call } = await answered(goodbye, { question: "That's all, thank you." });
    call.interrupt("You are welcome. Thank you");
    await mutters(fixture, call, "Bye bye!");
    await fixture.clock.passes(1000);
    expect(closed(fixture)).toEqual(["goodbye"]);
    expect(asked(fixture)).toEqual(["That's all, thank you."]);
  });

  it("comes with the caller's silence after a goodbye, without asking whether anybody is there", async () => {
    const { rig: fixture, call } = await answered(goodbye, { passes: 17_000 });
    expect(closed(fixture)).toEqual(["goodbye"]);
    expect(texts(call).join()).not.toContain("still there");
  });
});

describe("back-channels", () => {
  it.each(["Uh-huh.", "mhm", "Okay", "ja", "Mm-hmm, yeah"])("ask nothing while we speak: %s", async (text) => {
    const { rig: fixture, call } = await answered("This is a long sentence about lamps. And here is another one.");
    await mutters(fixture, call, text);
    await fixture.clock.passes(3000);
    expect(asked(fixture)).toEqual(["Tell me about it."]);
    expect(texts(call).at(-1)).toContain("another one.");
  });

  it("do not make the question obsolete that the agent thinks about", async () => {
    const { fixture, call } = await dialedFixture();
    const id = await fixture.says(call, "Where is my lamp?");
    await fixture.clock.passes(1500);
    await mutters(fixture, call, "Okay.");
    expect(asked(fixture)).toEqual(["Where is my lamp?"]);
    expect(await fixture.answer(call, "In Hamburg.", id)).toMatchObject({ kind: "sent" });
  });

  it("like questions whether anybody is there do not ask a slow agent again", async () => {
    const { fixture, call } = await dialedFixture();
    await fixture.says(call, "Where is my lamp?");
    await fixture.clock.passes(8000);
    await mutters(fixture, call, "Hello? Are you still there?");
    expect(asked(fixture)).toEqual(["Where is my lamp?"]);
    expect(await fixture.answer(call, "In Hamburg.")).toMatchObject({ kind: "sent" });
    await mutters(fixture, call, "Hello?");
    expect(asked(fixture)).toEqual(["Where is my lamp?", "Hello?"]);
  });

  it("that cut us short lead on where the caller stopped hearing", async () => {
    const { rig: fixture, call } = await answered("One is first. Two is second. Three is third.", {
      config: { max_sentences: 5 },
    });
    call.interrupt("One is first. Two is");
    await mutters(fixture, call, "Uh-huh");
    expect(texts(call).at(-1)).toBe("Two is second. Three is third.");
    expect(asked(fixture)).toEqual(["Tell me about it."]);
  });

  it("are answers to a question from us", async () => {
    const { rig: fixture, call } = await answered("We have it. Shall I order it?", { passes: 4000 });
    await fixture.says(call, "Mhm");
    await fixture.answer(call, "Done.");
    await fixture.clock.passes(3000);
    expect(asked(fixture)).toEqual(["Tell me about it.", "Mhm"]);
    await mutters(fixture, call, "Mhm");
    expect(asked(fixture)).toHaveLength(2);
  });

  it.each(["هل أطلبه لك؟", "要我订购吗？"])("are answers to a question in another script: %s", async (question) => {
    const { rig: fixture, call } = await answered(question, { passes: 4000 });
    await fixture.says(call, "Mhm");
    expect(asked(fixture)).toEqual(["Tell me about it.", "Mhm"]);
  });

  it("answer a question that they cut short at its end", async () => {
    const { rig: fixture, call } = await answered("We have it. Shall I order it?");
    call.interrupt("We have it. Shall I order");
    await fixture.says(call, "Yes please");
    expect(asked(fixture)).toEqual(["Tell me about it.", "Yes please"]);
  });
});

describe("a question before other sentences of the reply", () => {
  const question = "Shall I cancel your order 4711?";
  const rest = "Please note that this cannot be undone.";
  const config = { max_sentences: 5 };

  it.each(["Yes.", "Yes please", "Ja, genau.", "Oui", "Sí, por favor", "Mm-hmm, yeah", "Okay", "No"])(
    "is answered by %j when the caller interrupts after it",
    async (text) => {
      const { rig: fixture, call } = await answered(`I have found it. ${question} ${rest}`, { config });
      call.interrupt(`I have found it. ${question} Please`);
      await fixture.says(call, text);
      expect(asked(fixture)).toEqual(["Tell me about it.", text]);
      expect(notes(fixture)).toEqual({ "caller heard": `"I have found it. ${question} Please" (interrupted)` });
      expect(texts(call)).toHaveLength(2);
    },
  );

  it.each([
    ["the last sentence", `${question} ${rest}`, 2500],
    ["a short last sentence", `${question} Thank you.`, 2600],
    ["the one after it", `${question} ${rest} It is final. Nothing helps after that, ever.`, 2500],
    ["a goodbye", `${question} Thank you for calling us today, goodbye.`, 2500],
  ])("is answered by a yes while %s is played", async (_, text, passes) => {
    const { rig: fixture, call } = await answered(text, { config, passes });
    await fixture.says(call, "Yes.");
    expect(asked(fixture)).toEqual(["Tell me about it.", "Yes."]);
    expect(closed(fixture)).toEqual([]);
  });

  it("is answered by a yes when sentences are kept, which are not spoken then", async () => {
    const text = `${question} ${rest} One is first. Two is second.`;
    const { rig: fixture, call } = await answered(text, { passes: 2500 });
    await fixture.says(call, "Yes.");
    expect(asked(fixture)).toEqual(["Tell me about it.", "Yes."]);
    expect(notes(fixture)).toEqual({ "caller heard": `"${question} ${rest} ${offer}" (the rest was not spoken)` });
    expect(texts(call).join()).not.toContain("One is first");
  });

  it("is not answered by a back-channel, after which the speech resumes or goes on", async () => {
    const { rig: fixture, call } = await answered(`${question} ${rest}`, { config, passes: 2500 });
    await mutters(fixture, call, "Uh-huh");
    expect(texts(call)).toHaveLength(2);
    call.interrupt(`${question} Please`);
    await mutters(fixture, call, "Mhm");
    expect(texts(call).at(-1)).toBe(rest);
    expect(asked(fixture)).toEqual(["Tell me about it."]);
  });

  it("is not answered by a yes before it was heard, or after a later sentence", async () => {
    const { rig: fixture, call } = await answered(`We have a great many of them here. ${question} ${rest}`, { config });
    await mutters(fixture, call, "Yes");
    call.interrupt("We have a great many of them here. Shall I");
    await mutters(fixture, call, "Yes");
    expect(texts(call).at(-1)).toBe(`${question} ${rest}`);
    expect(asked(fixture)).toEqual(["Tell me about it."]);
    const other = await answered(`${question} ${rest} It is final.`, { config });
    other.call.interrupt(`${question} ${rest} It`);
    await mutters(other.rig, other.call, "Okay");
    expect(texts(other.call).at(-1)).toBe("It is final.");
    expect(asked(other.rig)).toEqual(["Tell me about it."]);
  });

  it("is answered by a yes in a greeting", async () => {
    for (const interrupts of [true, false]) {
      const { fixture, call } = await dialedFixture({ config: { greeting: `Hello. Is this Anna Miller? ${rest}` } });
      await fixture.clock.passes(2600);
      if (interrupts) call.interrupt("Hello. Is this Anna Miller? Please");
      await fixture.says(call, "Yes.");
      expect(asked(fixture)).toEqual(["Yes."]);
    }
  });

  it("in a greeting is not answered by a yes before it was heard", async () => {
    const greeting = `Welcome to the support line of Example Limited. Is this Anna Miller? ${rest}`;
    const { fixture, call } = await dialedFixture({ config: { greeting } });
    await fixture.clock.passes(500);
    await mutters(fixture, call, "Yes.");
    expect(asked(fixture)).toEqual([]);
  });
});

describe("the played part of a reply", () => {
  it("is passed with the next question, in one line", async () => {
    const { rig: fixture, call } = await answered("It is in Hamburg. It comes\non Monday.");
    call.interrupt('It is in "Hamburg".\nIt comes');
    await fixture.says(call, "Which Hamburg?");
    expect(notes(fixture)).toEqual({ "caller heard": '"It is in Hamburg . It comes" (interrupted)' });
  });

  it("is empty when the first word was interrupted", async () => {
    const { rig: fixture, call } = await answered("It is in Hamburg.");
    call.interrupt("");
    await fixture.says(call, "Hello?");
    expect(notes(fixture)).toEqual({ "caller heard": "nothing (interrupted)" });
  });

  it("is omitted when the whole reply was played, and is truncated to its end", async () => {
    const { rig: fixture, call } = await answered("It is in Hamburg.");
    call.interrupt("It is in Hamburg.");
    await fixture.says(call, "Fine, when?");
    expect(notes(fixture)).toBeUndefined();
    await fixture.answer(call, `${"word ".repeat(200)}end. And more.`);
    call.interrupt("word ".repeat(5000));
    await fixture.says(call, "Stop that");
    expect(notes(fixture)?.["caller heard"]).toMatch(/^"….{200}" \(interrupted\)$/u);
  });

  it("is passed again with a question that supersedes an unanswered one", async () => {
    const { rig: fixture, call } = await answered("It is in Hamburg. It comes on Monday.");
    call.interrupt("It is in Hamburg.");
    await fixture.says(call, "Which Hamburg?");
    await fixture.says(call, "And when?");
    expect(notes(fixture)).toEqual({ "caller heard": '"It is in Hamburg." (interrupted)' });
  });

  it("is nothing when the reply came while the caller had begun to say something newer", async () => {
    const { fixture, call } = await dialedFixture({ config: { collect: "1s" } });
    await fixture.says(call, "Where is my lamp?");
    call.say("And when?");
    await expect.poll(async () => (await fixture.answer(call, "In Hamburg.")).kind).toBe("refused");
    await fixture.clock.passes(1000);
    expect(asked(fixture)).toEqual(["Where is my lamp?", "And when?"]);
    expect(notes(fixture)).toEqual({ "caller heard": "nothing (interrupted)" });
  });
});

describe("an agent that is not asked now", () => {
  it("costs no fillers: an apology at once, then the end, and responders are notified", async () => {
    const { fixture, call } = await dialedFixture({ active: false });
    await fixture.clock.passes(8000);
    await call.over;
    expect(texts(call)).toEqual([
      "Hello there.",
      "I am sorry, I cannot answer that right now. Thank you for calling. Goodbye.",
    ]);
    expect(closed(fixture)).toEqual(["no-answer"]);
    expect(fixture.channel.messages.map(({ forHumans }) => forHumans?.subject)).toEqual([
      "Missed call from +15005550001",
    ]);
  });

  it("leads to a human at once, where there is one", async () => {
    const { fixture, call } = await dialedFixture({ active: false, config: { transfer: { dial: ["+15005550009"] } } });
    await fixture.clock.passes(10_000);
    expect(await call.over).toBe("hangup");
    expect(fixture.sessions("transferring")).toMatchObject([{ reason: "no-answer" }]);
    expect(texts(call).join()).not.toContain("One moment");
  });
});

describe("a paused channel", () => {
  it("does not take a new call: an apology at once, then the end, and responders know of the call", async () => {
    const { fixture, call } = await dialedFixture({ paused: () => true });
    await fixture.clock.passes(8000);
    await call.over;
    expect(texts(call).at(-1)).toContain("I cannot answer that right now");
    expect(closed(fixture)).toEqual(["no-answer"]);
    expect(fixture.channel.messages.map(({ forHumans }) => forHumans?.subject)).toEqual([
      "Missed call from +15005550001",
    ]);
  });

  it("continues a call that began before", async () => {
    let paused = false;
    const { fixture, call } = await dialedFixture({ paused: () => paused });
    await fixture.clock.passes(500);
    paused = true;
    await fixture.says(call, "Where is my parcel?");
    const answered = fixture.answer(call, "It is in Hamburg.");
    await fixture.clock.passes(3000);
    expect(await answered).toMatchObject({ kind: "sent" });
    expect(texts(call).join(" ")).not.toContain("I cannot answer");
  });
});
