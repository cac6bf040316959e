// What comes of a call that jambonz gives to a human: the hook of its `dial` tells, over the same connection.

import { describe, expect, it } from "vitest";
import { type Switchboard, sessionHistory, switchboard } from "../../../support/voice/adapter.ts";
import { jambonzCall } from "../../../support/voice/jambonz.ts";

const block = {
  dialect: "jambonz",
  jambonz: { user: "jambonz", password: "p" },
  greeting: "Hello, this is Ava.",
  fillers: { first: "30s" },
  silence: { after: "60s" },
  collect: "20ms",
  speaking_rate: 40,
};

/** A call of jambonz that was greeted. */
async function greeted(no_answer: string) {
  const board = await switchboard({ ...block, transfer: { dial: ["+15005550009"], no_answer } });
  const authorization = `Basic ${Buffer.from("jambonz:p").toString("base64")}`;
  const connect = () => board.dial("/relay", { headers: { authorization }, protocols: ["ws.jambonz.org"] });
  const line = await connect();
  const phone = jambonzCall(line, { callSid: "call-1" });
  phone.begin();
  await expect.poll(() => phone.played.length).toBe(1);
  return { board, phone, line, connect };
}
/** One whose human is being rung. */
async function ringing(no_answer: string) {
  const call = await greeted(no_answer);
  call.phone.press("0");
  await rings(call);
  return call;
}
const rings = ({ phone }: Awaited<ReturnType<typeof greeted>>) =>
  expect.poll(() => phone.done.map(({ verb }) => verb as string)).toEqual(["dial"]);
const missed = (board: Switchboard) => board.channel.messages.filter((one) => one.forHumans !== undefined);

describe("humans whom jambonz rings", () => {
  it.each(["no-answer", "busy", "failed", "ringing"])("do not answer: %s", async (status) => {
    const { board, phone } = await ringing("voicemail");
    expect(phone.done[0]).toMatchObject({ actionHook: "/dialed" });
    phone.dialed(status);
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 3);
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring asked", "closed no-answer"]);
    expect(missed(board)).toMatchObject([{ forHumans: { subject: "Missed call from +15005550001" } }]);
    await expect.poll(() => phone.done.at(-1)?.["verb"] as string).toBe("hangup");
    expect(phone.played.join(" ")).toMatch(/sorry/i);
    expect(phone.done.filter(({ verb }) => verb === "dial")).toHaveLength(1);
  });

  it("do not answer, and the agent has the call again", async () => {
    const { board, phone } = await ringing("agent");
    phone.dialed("busy");
    await board.channel.until("the return", (channel) => sessionHistory(channel).length === 3);
    await expect.poll(() => phone.listening).toBe(true);
    expect(missed(board)).toHaveLength(1);
    phone.speak("Then you help me.");
    expect(await board.heard(1)).toBe("Then you help me.");
    expect(await board.answer("I will.")).toMatchObject({ kind: "sent" });
    await expect.poll(() => phone.played.at(-1)).toBe("I will.");
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring asked", "opened"]);
  });

  it("are rung after an answer that escalates, and when none answers the agent has the call again", async () => {
    const call = await greeted("agent");
    const { board, phone } = call;
    phone.speak("I want a refund.");
    await board.heard();
    const answer = "A colleague helps you now.";
    expect(await board.answer(answer, undefined, { transfer: true })).toMatchObject({ kind: "sent" });
    await rings(call);
    expect(phone.played).toEqual(["Hello, this is Ava.", answer]);
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring escalated"]);
    phone.dialed("no-answer");
    await expect.poll(() => phone.listening).toBe(true);
    phone.speak("Nobody there?");
    expect(await board.heard(2)).toBe("Nobody there?");
    expect(await board.answer("I am.")).toMatchObject({ kind: "sent" });
  });

  it("answer: no responder is notified, and the call ends", async () => {
    const { board, phone } = await ringing("voicemail");
    phone.dialed("completed");
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 3);
    expect(sessionHistory(board.channel).at(-1)).toBe("closed transferred");
    await expect.poll(() => phone.done.at(-1)?.["verb"] as string).toBe("hangup");
    expect(missed(board)).toEqual([]);
  });

  it("are notified when the caller hangs up before they answer", async () => {
    const { board, phone } = await ringing("voicemail");
    phone.hangUp();
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 3);
    expect(sessionHistory(board.channel).at(-1)).toBe("closed hung-up");
    expect(missed(board)).toHaveLength(1);
  });

  it("are rung by the next connection after one was cut, which reports the result", async () => {
    const { board, phone, line, connect } = await ringing("voicemail");
    line.cut();
    await board.channel.until("lost", (channel) => sessionHistory(channel).length === 3);
    const again = await connect();
    const resumed = jambonzCall(again, { callSid: "call-1" });
    resumed.begin("session:reconnect");
    await again.until("the dial", (frame) => JSON.stringify(frame).includes('"dial"'));
    await expect.poll(() => resumed.done.length).toBe(1);
    expect(resumed.played).toEqual([]);
    resumed.dialed("no-answer");
    await board.channel.until("the end", (channel) => sessionHistory(channel).at(-1) === "closed no-answer");
    expect(missed(board)).toHaveLength(1);
    expect([...phone.done, ...resumed.done].filter(({ verb }) => verb === "dial")).toHaveLength(2);
  });
});
