// The line is cut, or the caller speaks, in every phase of a call: the same table for each dialect that is not Twilio's.

import { generateKeyPairSync, sign } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type Line, type Switchboard, sessionHistory, switchboard } from "../../support/voice/adapter.ts";
import { jambonzCall } from "../../support/voice/jambonz.ts";

const common = {
  greeting: "Hello, this is Ava.",
  fillers: { first: "30s" },
  silence: { after: "60s" },
  collect: "20ms",
  digits: { pause: "20ms" },
  transfer: { dial: ["+15005550009"] },
};

/** A provider's side of one connection. */
interface Peer {
  readonly line: Line;
  begin(): void;
  /** Whether the call's first verbs have arrived. Absent when it listens from the beginning. */
  listens?(): boolean;
  speak(text: string): void;
  askForHuman(): void;
}
interface Provider {
  readonly name: string;
  /** Humans have the call; nothing more comes over the connection. */
  readonly transferred: string;
  readonly block: Parameters<typeof switchboard>[0];
  connect(board: Switchboard, again: boolean): Promise<Peer>;
}

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
async function posted(board: Switchboard, path: string, more = {}): Promise<string> {
  const form = { CallSid: "v3:1", From: "+15005550001", To: "+15005550006", Direction: "inbound", ...more };
  const body = new URLSearchParams(form).toString();
  const seconds = String(Math.floor(Date.now() / 1000));
  const headers = {
    "content-type": "application/x-www-form-urlencoded",
    "telnyx-timestamp": seconds,
    "telnyx-signature-ed25519": sign(null, Buffer.from(`${seconds}|${body}`), privateKey).toString("base64"),
  };
  return (await fetch(board.base + path, { method: "POST", headers, body })).text();
}

const telnyx: Provider = {
  name: "telnyx",
  transferred: "lost socket",
  block: {
    ...common,
    dialect: "telnyx",
    telnyx: {
      public_key: publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64"),
      token_key: "a-key-for-tokens",
    },
  },
  async connect(board, again) {
    const failed = { SessionStatus: "failed", ErrorCode: "64105" };
    const xml = again ? await posted(board, "/ended?n=0", failed) : await posted(board, "/call");
    const line = await board.dial(/\burl="([^"]*)"/.exec(xml)?.[1] ?? "");
    const setup = { type: "setup", callControlId: "v3:1", callSid: "v2:1", from: "+15005550001" };
    return {
      line,
      begin: () => line.say({ ...setup, to: "+15005550006", direction: "inbound", customParameters: {} }),
      speak(text) {
        line.say({ type: "interrupt", utteranceUntilInterrupt: "First", durationUntilInterruptMs: 100 });
        line.say({ type: "prompt", voicePrompt: text, lang: "en", last: true });
      },
      askForHuman: () => line.say({ type: "dtmf", digit: "0" }),
    };
  },
};

const retell: Provider = {
  name: "retell",
  transferred: "closed transferred",
  block: { ...common, dialect: "retell", retell: { secret: "a-secret" } },
  async connect(board, again) {
    const line = await board.dial("/llm/call_1?secret=a-secret");
    const said: { role: string; content: string; words: [] }[] = [
      { role: "agent", content: "Hello, this is Ava.", words: [] },
    ];
    let number = again ? 10 : 0;
    const details = { call_id: "call_1", direction: "inbound", from_number: "+15005550001" };
    return {
      line,
      begin: () =>
        line.say({
          interaction_type: "call_details",
          call: { ...details, to_number: "+15005550006", ...(again ? { transcript_object: said } : {}) },
        }),
      speak(text) {
        if (said.at(-1)?.role === "user") said.push({ role: "agent", content: "First", words: [] });
        said.push({ role: "user", content: text, words: [] });
        line.say({ interaction_type: "response_required", response_id: ++number, transcript: said });
      },
      askForHuman: () =>
        line.say({
          interaction_type: "update_only",
          transcript: said,
          transcript_with_tool_calls: [{ role: "dtmf", digit: "0" }],
        }),
    };
  },
};

const jambonz: Provider = {
  name: "jambonz",
  transferred: "lost socket",
  block: { ...common, dialect: "jambonz", jambonz: { user: "jambonz", password: "p" } },
  async connect(board, again) {
    const authorization = `Basic ${Buffer.from("jambonz:p").toString("base64")}`;
    const line = await board.dial("/relay", { headers: { authorization }, protocols: ["ws.jambonz.org"] });
    const phone = jambonzCall(line, { callSid: "call-1", unacknowledged: again });
    return {
      line,
      begin: () => phone.begin(again ? "session:reconnect" : "session:new"),
      listens: () => phone.listening,
      speak: (text) => phone.speak(text),
      askForHuman: () => phone.press("0"),
    };
  },
};

const opened = async (board: Switchboard, peer: Peer) => {
  await board.channel.until("opened", (channel) => sessionHistory(channel).includes("opened"));
  if (peer.listens) await expect.poll(() => peer.listens?.()).toBe(true);
};
const asked = async (board: Switchboard, peer: Peer) => {
  await opened(board, peer);
  peer.speak("Tell me all.");
  await board.heard();
};
const phases: readonly (readonly [string, (board: Switchboard, peer: Peer) => Promise<void>])[] = [
  ["after its setup", opened],
  ["while the agent thinks", asked],
  [
    "while a sentence is spoken",
    async (board, peer) => {
      await asked(board, peer);
      expect(await board.answer("First this. Then that. And more.")).toMatchObject({ kind: "sent" });
    },
  ],
  [
    "during a transfer",
    async (board, peer) => {
      await opened(board, peer);
      peer.askForHuman();
      await board.channel.until("the transfer", (channel) => sessionHistory(channel).includes("transferring asked"));
      await peer.line.until("the transfer", (frame) =>
        /"type":"end"|transfer_number|"dial"/.test(JSON.stringify(frame)),
      );
    },
  ],
];
const ready = async (provider: Provider, more = {}) => {
  const board = await switchboard({ ...provider.block, speaking_rate: 40, ...more });
  const peer = await provider.connect(board, false);
  return { board, peer };
};
/** Resolves when the adapter is done with the first socket; fails after a while. */
const done = (board: Switchboard) =>
  Promise.race([
    board.served[0]?.then(() => "done"),
    new Promise((resolve) => AbortSignal.timeout(60_000).addEventListener("abort", () => resolve("late"))),
  ]);

describe.each([telnyx, retell, jambonz])("a line of $name", (provider) => {
  it("that is cut before its setup leaves nothing behind", async () => {
    const { board, peer } = await ready(provider);
    await expect.poll(() => board.served.length).toBe(1);
    peer.line.cut();
    expect(await done(board)).toBe("done");
    expect(board.channel.stored).toEqual([]);
    expect(board.wasted).toEqual([]);
  });

  it.each(phases)("is cut %s", async (phase, reach) => {
    const { board, peer } = await ready(provider);
    peer.begin();
    if (provider !== telnyx) await peer.line.until("the greeting", (one) => JSON.stringify(one).includes("Ava"));
    await reach(board, peer);
    peer.line.cut();
    expect(await done(board)).toBe("done");
    const end = phase.includes("transfer") ? provider.transferred : "lost socket";
    expect(sessionHistory(board.channel).filter((one) => /^(lost|closed)/.test(one))).toEqual([end]);
    if (board.channel.messages.length > 0) {
      expect((await board.answer("Late.")).kind).toMatch(/deferred|refused/);
    }
    expect(board.wasted).toEqual([]);
    if (phase.includes("transfer")) return;
    const again = await provider.connect(board, true);
    again.begin();
    await expect.poll(() => sessionHistory(board.channel).filter((one) => one === "opened").length).toBe(2);
    if (again.listens) await expect.poll(() => again.listens?.()).toBe(true);
    const already = board.channel.messages.length;
    again.speak("Here I am again.");
    expect(await board.heard(already)).toContain("Here I am again.");
    await expect.poll(async () => (await board.answer("Welcome back.")).kind).toBe("sent");
    const sessions = board.channel.stored.flatMap((one) => (one.kind === "session" ? [one.session] : []));
    expect(new Set(sessions).size).toBe(1);
  });

  it.each(phases.slice(0, 3))("hears a caller who speaks %s", async (_, reach) => {
    const { board, peer } = await ready(provider);
    peer.begin();
    if (provider !== telnyx) await peer.line.until("the greeting", (one) => JSON.stringify(one).includes("Ava"));
    await reach(board, peer);
    const already = board.channel.messages.length;
    peer.speak("Enough.");
    expect(await board.heard(already)).toContain("Enough.");
    if (already > 0) {
      expect(await board.answer("Late.", "Tell me all.")).toMatchObject({ code: "superseded" });
    }
    expect(await board.answer("As you like.")).toMatchObject({ kind: "sent" });
    await peer.line.until("the answer", (frame) => JSON.stringify(frame).includes("As you like."));
    expect(JSON.stringify(peer.line.frames)).not.toContain("Late.");
    expect(sessionHistory(board.channel).filter((one) => /^(lost|closed)/.test(one))).toEqual([]);
  });

  it("that is cut in the words before a transfer leads to the human all the same", async () => {
    const { board, peer } = await ready(provider, { speaking_rate: 5 });
    peer.begin();
    if (provider !== telnyx) await peer.line.until("the greeting", (one) => JSON.stringify(one).includes("Ava"));
    await opened(board, peer);
    peer.askForHuman();
    await peer.line.until("the sentence", (frame) => JSON.stringify(frame).includes("colleague"));
    peer.line.cut();
    expect(await done(board)).toBe("done");
    if (provider === telnyx) {
      const failed = { SessionStatus: "failed", ErrorCode: "64105" };
      return expect(await posted(board, "/ended?n=0", failed)).toContain("<Number>+15005550009</Number>");
    }
    const again = await provider.connect(board, true);
    again.begin();
    await again.line.until("the transfer", (frame) => /transfer_number|"dial"/.test(JSON.stringify(frame)));
  });

  it("transfers although the caller speaks at the same time", async () => {
    const { board, peer } = await ready(provider);
    peer.begin();
    if (provider !== telnyx) await peer.line.until("the greeting", (one) => JSON.stringify(one).includes("Ava"));
    await opened(board, peer);
    peer.askForHuman();
    await peer.line.until("the sentence", (frame) => JSON.stringify(frame).includes("colleague"));
    peer.speak("Hurry up.");
    await board.channel.until("the transfer", (channel) => sessionHistory(channel).includes("transferring asked"));
    expect(sessionHistory(board.channel).filter((one) => one.startsWith("transferring"))).toHaveLength(1);
    expect(board.channel.messages).toEqual([]);
  });
});
