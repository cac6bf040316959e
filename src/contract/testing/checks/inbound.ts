// Rules of `inbound`: no message is lost or stored twice, and the adapter acknowledges only committed
// messages.

import assert from "node:assert/strict";
import type { MessageEvent } from "../../index.ts";
import type { RecordingChannel } from "../channel.ts";
import { eventually, throughout } from "../patience.ts";
import {
  type AdapterUnderTest,
  type Check,
  graceMs,
  mark,
  present,
  type Rig,
  ready,
  whileRunning,
  withRig,
} from "../rig.ts";

const say = (rig: Rig, text: string) =>
  present(rig.peer.say?.bind(rig.peer), "the peer has no say()", "inbound")(text);

const acknowledged = async (rig: Rig, text: string) => {
  const list = present(
    rig.peer.acknowledged?.bind(rig.peer),
    "the peer has no acknowledged()",
    "acknowledge",
  );
  return (await list()).some((one) => one.includes(text));
};

/** Returns every message with this text that was passed to `accept`, committed or not. */
const handedOver = (channel: RecordingChannel, text: string): readonly MessageEvent[] =>
  channel.calls.flatMap((call) =>
    call.events.filter((event) => event.kind === "message").filter((event) => event.text.includes(text)),
  );
const inState = (channel: RecordingChannel, state: string, text: string) =>
  channel.calls.some((call) => call.state === state && call.events.some((event) => mentions(event, text)));
const mentions = (event: { readonly kind: string; readonly text?: string }, text: string) =>
  event.kind === "message" && (event.text?.includes(text) ?? false);
const stored = (rig: Rig, text: string) => rig.channel.messages.filter((event) => event.text.includes(text));
const arrives = (rig: Rig, text: string, when: string) =>
  rig.channel.until(`"${text}", ${when}`, () => stored(rig, text).length > 0, rig.patienceMs);

async function statesInOrder(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, (rig) =>
    whileRunning(rig, async (running) => {
      await ready(rig);
      const states = rig.channel.statuses.map((status) => status.state);
      assert.equal(states[0], "connecting", `the first state reported was ${states[0]}`);
      assert.deepEqual([...new Set(states)], ["connecting", "ready"], `the states went ${states.join(", ")}`);
      await throughout("run ended although nobody aborted it", () => running.ends.length === 0, rig.quietMs);
    }),
  );
}

async function unauthorized(subject: AdapterUnderTest): Promise<void> {
  const body = (rig: Rig) =>
    whileRunning(rig, async () => {
      const states = () => rig.channel.statuses.map((status) => status.state);
      const told = (channel: RecordingChannel) =>
        channel.statuses.some((one) => one.state === "unauthorized");
      await rig.channel.until("a report of unauthorized", told, rig.patienceMs);
      assert.ok(!states().includes("ready"), `ready was reported without a login: ${states().join(", ")}`);
    });
  await withRig(subject, body, { credentials: "wrong" });
}

const endsOnAbort = (silent: boolean) => (subject: AdapterUnderTest) =>
  withRig(subject, async (rig) => {
    if (silent) await rig.peer.fault("hang-before");
    await whileRunning(rig, async (running) => {
      if (silent) await throughout("ready at a silent peer", () => !isReady(rig), rig.quietMs);
      else await ready(rig);
      const took = await running.stop();
      assert.ok(took !== null, `run had not ended ${graceMs} ms after the abort`);
    });
  });
const isReady = (rig: Rig) => rig.channel.statuses.some((status) => status.state === "ready");

async function acknowledgesAfterCommit(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, (rig) =>
    whileRunning(rig, async () => {
      await ready(rig);
      rig.channel.hold();
      const text = mark("held");
      await say(rig, text);
      await rig.channel.until("a call of accept", (now) => inState(now, "pending", text), rig.patienceMs);
      const still = async () => !(await acknowledged(rig, text));
      await throughout("acknowledged upstream while accept was pending", still, rig.quietMs);
      rig.channel.release();
      const done = () => acknowledged(rig, text);
      await eventually("the acknowledgement of a committed message", done, rig.patienceMs);
    }),
  );
}

async function comesAgainAfterRejection(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, (rig) =>
    whileRunning(rig, async () => {
      await ready(rig);
      const [first, second] = [mark("rejected"), mark("next")];
      rig.channel.reject(Number.POSITIVE_INFINITY);
      await say(rig, first);
      await rig.channel.until("a call of accept", (now) => inState(now, "rejected", first), rig.patienceMs);
      const kept = async () => !rig.peer.acknowledged || !(await acknowledged(rig, first));
      await throughout("acknowledged upstream although accept rejected", kept, rig.quietMs);
      rig.channel.reject(0);
      await say(rig, second);
      await arrives(rig, second, "sent after a rejected accept");
      await arrives(rig, first, "whose accept had been rejected, once more");
    }),
  );
}

async function stableIds(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, (rig) =>
    whileRunning(rig, async () => {
      await ready(rig);
      const [first, second] = [mark("same"), mark("other")];
      rig.channel.reject(Number.POSITIVE_INFINITY);
      await say(rig, first);
      await rig.channel.until("a call of accept", (now) => inState(now, "rejected", first), rig.patienceMs);
      rig.channel.reject(0);
      const again = (now: RecordingChannel) => inState(now, "committed", first);
      await rig.channel.until("the rejected message once more", again, rig.patienceMs);
      await say(rig, second);
      const other = (now: RecordingChannel) => inState(now, "committed", second);
      await rig.channel.until("a second message", other, rig.patienceMs);
      const ids = new Set(handedOver(rig.channel, first).map((event) => event.id));
      assert.equal(ids.size, 1, `one message came under the ids ${[...ids].join(", ")}`);
      const shared = handedOver(rig.channel, second).find((event) => ids.has(event.id));
      assert.equal(shared, undefined, `two messages came under the id ${shared?.id}`);
    }),
  );
}

async function resumes(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const [before, during] = [mark("before"), mark("meanwhile")];
    await whileRunning(rig, async () => {
      await ready(rig);
      await say(rig, before);
      await arrives(rig, before, "sent while run was up");
    });
    await say(rig, during);
    await whileRunning(rig, async () => {
      await arrives(rig, during, "sent while run was down");
      const once = () => stored(rig, before).length === 1;
      await throughout("a committed message came again under another id", once, rig.quietMs);
    });
  });
}

async function comesBack(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, (rig) =>
    whileRunning(rig, async () => {
      await ready(rig);
      await rig.peer.fault("refuse-connection");
      await throughout(
        "a message from a peer that is away",
        () => rig.channel.stored.length === 0,
        rig.quietMs,
      );
      await rig.peer.fault("none");
      const text = mark("back");
      await say(rig, text);
      await arrives(rig, text, "sent after the peer was away");
    }),
  );
}

export const inboundChecks: readonly Check[] = [
  { name: "inbound: reports connecting, then ready, and stays", needs: ["inbound"], run: statesInOrder },
  {
    name: "inbound: reports unauthorized, never ready, when the login is rejected",
    needs: ["inbound", "credentials"],
    run: unauthorized,
  },
  { name: "inbound: run ends within a second of the abort", needs: ["inbound"], run: endsOnAbort(false) },
  {
    name: "inbound: run ends within a second of the abort, at a silent peer too",
    needs: ["inbound", "hang-before"],
    run: endsOnAbort(true),
  },
  {
    name: "inbound: acknowledges once accept has resolved, never before",
    needs: ["inbound", "acknowledge"],
    run: acknowledgesAfterCommit,
  },
  {
    name: "inbound: what accept rejected stays with the peer and comes again",
    needs: ["inbound"],
    run: comesAgainAfterRejection,
  },
  {
    name: "inbound: the same input has the same id, another input another",
    needs: ["inbound"],
    run: stableIds,
  },
  { name: "inbound: goes on from the last committed cursor", needs: ["inbound"], run: resumes },
  {
    name: "inbound: reads on after the peer was away",
    needs: ["inbound", "refuse-connection"],
    run: comesBack,
  },
];
