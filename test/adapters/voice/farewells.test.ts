// The end of a call from our side: a goodbye takes effect only when it was played, and the caller is heard meanwhile.

import { describe, expect, it } from "vitest";
import type { PhoneCall } from "../../../src/sandbox/phone.ts";
import { stillClock } from "../../support/clock.ts";
import { dialedFixture, sessionHistory, switchboard, type VoiceFixture } from "../../support/voice/adapter.ts";

const reply = "We are open from nine to five on every day. We are behind the station. Have a nice day, goodbye.";
const lastSpoken = (call: PhoneCall) => call.spoken.at(-1)?.text.trim();
const questions = ({ channel }: VoiceFixture) => channel.messages.map(({ text }) => text);

/** A call in which the reply has just been sent. The playback takes about seven seconds. */
async function replied(question = "When do you open?") {
  const { fixture, call } = await dialedFixture();
  await fixture.clock.passes(2000);
  await fixture.says(call, question);
  await fixture.answer(call, reply);
  await call.until((one) => one.spoken.at(-1)?.done);
  return { fixture, call };
}

describe("a goodbye at the end of a reply", () => {
  it.each(["Okay", "mhm"])("that a barge-in cut off is spoken after all: %s", async (word) => {
    const { fixture, call } = await replied();
    await fixture.clock.passes(3000);
    call.interrupt("We are open from nine to five on");
    call.say(word);
    await fixture.clock.passes(9000);
    expect(lastSpoken(call)).toBe(reply);
    expect(call.spoken.filter(({ text }) => text.includes("goodbye"))).toHaveLength(2);
    expect(sessionHistory(fixture.channel)).toEqual(["opened", "interrupted"]);
    expect(questions(fixture)).toEqual(["When do you open?"]);
  });

  it("that was cut off ends the call after it was spoken, when the caller has said goodbye", async () => {
    const { fixture, call } = await replied("That's all, thanks. Bye!");
    call.interrupt("We are open from nine to five on every day. We are behind");
    call.say("mhm");
    await fixture.clock.passes(1000);
    expect(lastSpoken(call)).toBe("We are behind the station. Have a nice day, goodbye.");
    expect(fixture.sessions("closed")).toEqual([]);
    await fixture.clock.passes(4000);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "goodbye" }]);
  });

  it("ends the call when the caller agrees while it is played", async () => {
    const { fixture, call } = await replied();
    call.interrupt("We are open from nine to five on every day. We are behind the station. Have a");
    call.say("Okay");
    await fixture.clock.passes(1000);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "goodbye" }]);
  });

  it("is a question for the agent when the caller says goodbye before it", async () => {
    const { fixture, call } = await replied();
    call.interrupt("We are open from nine");
    await fixture.says(call, "Okay, bye!");
    expect(questions(fixture)).toEqual(["When do you open?", "Okay, bye!"]);
    await fixture.answer(call, "Goodbye!");
    await fixture.clock.passes(4000);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "goodbye" }]);
  });

  it("that was cut off does not end the call of a silent caller", async () => {
    const { fixture, call } = await replied();
    call.interrupt("We are open from nine");
    await fixture.clock.passes(11_000);
    expect(lastSpoken(call)).toBe("Are you still there?");
  });

  it("is not answered by an acknowledgement of an earlier sentence", async () => {
    const { fixture, call } = await replied();
    await fixture.clock.passes(2000);
    call.say("Okay");
    await fixture.clock.passes(10_000);
    expect(fixture.sessions("closed")).toEqual([]); // the caller may still speak
    await fixture.clock.passes(8000);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "goodbye" }]);
  });

  it("ends the call although the caller, who said goodbye, acknowledges an earlier sentence", async () => {
    const { fixture, call } = await replied("That's all, thanks. Bye!");
    await fixture.clock.passes(2000);
    call.say("Okay");
    await fixture.clock.passes(8000);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "goodbye" }]);
  });
});

describe("during the apology of an agent that does not answer", () => {
  it.each([
    ["without a transfer", {}],
    ["before a transfer", { transfer: { dial: ["+15005550009"] } }],
  ])("a caller who hangs up was not served, and responders are notified (%s)", async (_, config) => {
    const { fixture, call } = await dialedFixture({ active: false, config });
    await call.hears("I am sorry");
    await call.hangUp();
    await fixture.channel.until("the missed call", ({ messages }) => messages.length === 1);
    expect(fixture.channel.messages).toMatchObject([
      { forHumans: { subject: "Missed call from +15005550001" }, text: expect.stringContaining("did not answer") },
    ]);
    await fixture.channel.until("the end", () => fixture.sessions("closed").length === 1);
    expect(sessionHistory(fixture.channel)).not.toContain("transferring no-answer");
  });

  it("a caller who was asked whether they are there, and hangs up in the goodbye, was served", async () => {
    const { fixture, call } = await dialedFixture({ config: { silence: { asks: 0 } } });
    for (let n = 0; n < 200 && !call.spoken.some(({ text }) => text.includes("Goodbye")); n++)
      await fixture.clock.passes(100);
    await call.hangUp();
    await fixture.channel.until("the end", () => fixture.sessions("closed").length === 1);
    expect(fixture.channel.messages).toEqual([]);
  });
});

describe("during a farewell", () => {
  it("the words of the caller are read, and keep the call", async () => {
    const { fixture, call } = await replied();
    await fixture.clock.passes(6000);
    call.say("Okay"); // to the goodbye that is being played
    await fixture.clock.passes(100);
    call.interrupt("We are open from nine to five on every day. We are behind the station. Have");
    await fixture.says(call, "Wait, is there parking?");
    expect(await fixture.answer(call, "Yes.")).toMatchObject({ kind: "sent" });
    await fixture.clock.passes(5000);
    expect(sessionHistory(fixture.channel)).toEqual(["opened", "interrupted"]);
  });

  it("a store that rejects writes ends the connection, and the call is resumed", async () => {
    const { fixture, call } = await dialedFixture({ active: false });
    await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
    fixture.channel.reject(1);
    await fixture.clock.passes(8000);
    await call.until((one) => one.complaints.some((text) => text.includes("1011")));
    await call.until((one) => one.connections === 2);
    await fixture.clock.passes(8000);
    await call.over;
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "no-answer" }]);
  });

  it("nothing is stored after the end, when the caller speaks while the end is being stored", async () => {
    const { fixture, call } = await dialedFixture({ config: { silence: { asks: 0 } } });
    await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
    fixture.channel.hold();
    await fixture.clock.passes(15_000);
    expect(fixture.channel.calls.at(-1)).toMatchObject({ state: "pending", events: [{ state: "closed" }] });
    call.interrupt("Thank you");
    call.say("Wait!");
    await fixture.clock.passes(1000);
    fixture.channel.release();
    await call.over;
    await fixture.clock.passes(1000);
    expect(fixture.channel.messages).toEqual([]);
    expect(sessionHistory(fixture.channel)).toEqual(["opened", "closed silent"]);
  });
});

describe("during a farewell through Retell", () => {
  const greeting = { role: "agent", content: "Hello." };
  const goodbye = "Thank you for calling. Goodbye.";

  async function retellCall(more: { readonly active?: boolean } = {}) {
    const clock = stillClock();
    const agent = { active: true, name: "Agent", introduction: null, ...more };
    const config = { dialect: "retell", retell: { secret: "a-secret" }, greeting: "Hello.", silence: { asks: 0 } };
    const board = await switchboard(config, { clock, agent });
    const line = await board.dial("/llm/a-secret/call_1");
    const call = { call_id: "call_1", direction: "inbound", from_number: "+15005550001", to_number: "+15005550006" };
    line.say({ interaction_type: "call_details", call });
    return { clock, board, line };
  }

  /** A call in which the goodbye to a silent caller has been sent. */
  async function silentCall() {
    const { clock, board, line } = await retellCall();
    await line.until("the greeting", ({ content }) => content === "Hello.");
    line.say({ interaction_type: "reminder_required", response_id: 1, transcript: [greeting] });
    await line.until("the goodbye", ({ content }) => content === goodbye);
    return { clock, board, line };
  }

  it("pings are answered, and the words of the caller keep the call", async () => {
    const { clock, board, line } = await silentCall();
    line.say({ interaction_type: "ping_pong", timestamp: 7 });
    await line.until("a pong", ({ timestamp }) => timestamp === 7);
    const words = { role: "user", content: "Wait, I am here." };
    const transcript = [greeting, { role: "agent", content: "Thank you for" }, words];
    line.say({ interaction_type: "update_only", transcript });
    line.say({ interaction_type: "response_required", response_id: 2, transcript });
    // Resolves when the frames before it were handled.
    line.say({ interaction_type: "ping_pong", timestamp: 8 });
    await line.until("a pong", ({ timestamp }) => timestamp === 8);
    await clock.passes(1000);
    expect(await board.heard()).toBe("Wait, I am here.");
    expect(await board.answer("Good.")).toMatchObject({ kind: "sent" });
    await clock.passes(15_000);
    expect(sessionHistory(board.channel)).toEqual(["opened"]);
  });

  it("pings are answered while the apology for an inactive agent is played", async () => {
    const { clock, board, line } = await retellCall({ active: false });
    await line.until("the goodbye", ({ content }) => content === goodbye);
    line.say({ interaction_type: "ping_pong", timestamp: 7 });
    await line.until("a pong", ({ timestamp }) => timestamp === 7);
    expect(line.frames.filter((frame) => frame["end_call"] === true)).toEqual([]);
    await clock.passes(8000);
    await line.until("the end", (frame) => frame["end_call"] === true);
    expect(sessionHistory(board.channel)).toEqual(["opened", "closed no-answer"]);
    expect(board.channel.messages).toMatchObject([{ forHumans: { subject: "Missed call from +15005550001" } }]);
  });

  it("a connection that is cut while the end is being stored does not report the call as lost", async () => {
    const { clock, board, line } = await silentCall();
    board.channel.hold();
    await clock.passes(5000);
    expect(board.channel.calls.at(-1)).toMatchObject({ state: "pending", events: [{ state: "closed" }] });
    line.cut();
    await line.closed;
    await clock.passes(100);
    board.channel.release();
    await board.served[0];
    expect(sessionHistory(board.channel)).toEqual(["opened", "closed silent"]);
  });
});
