// Rules of the functions without side effects: `reconcile` and `probe`.

import assert from "node:assert/strict";
import type { ChannelStatus, PastAttempt, Verdict } from "../../index.ts";
import { noFiles } from "../files.ts";
import { attempt, deadline, eventually } from "../patience.ts";
import { type AdapterUnderTest, type Check, outboundOf, present, type Rig, withRig } from "../rig.ts";
import { compose, type Letter, taken } from "./send.ts";

/** Returns the verdict on an attempt made an hour ago. A throw counts as "unsure", as in the core. */
async function lookUp(rig: Rig, letter: Letter): Promise<Verdict> {
  const outbound = outboundOf(rig);
  const look = present(outbound.reconcile?.bind(outbound), "the adapter has no reconcile", "reconcile");
  const startedAt = new Date(rig.channel.clock.now() - 3_600_000);
  const past: PastAttempt = { key: letter.key, number: 1, startedAt };
  return attempt(() => look(letter.draft, past, deadline(rig.patienceMs))).catch(
    (): Verdict => ({ kind: "unsure" }),
  );
}

async function sendNow(rig: Rig, letter: Letter): Promise<void> {
  const signal = deadline(rig.patienceMs);
  const made = { key: letter.key, number: 1, signal, crossing: () => Promise.resolve(), read: noFiles };
  await outboundOf(rig).send(letter.draft, made);
  await eventually(
    "the message at the peer",
    async () => (await taken(rig, letter.text)) > 0,
    rig.patienceMs,
  );
}

async function findsWhatWasSent(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const letter = compose(rig, "found");
    await sendNow(rig, letter);
    const verdicts: Verdict[] = [];
    const sure = async () =>
      verdicts.push(await lookUp(rig, letter)) > 0 && verdicts.at(-1)?.kind !== "unsure";
    await eventually("a verdict on a message that was sent", sure, rig.patienceMs);
    const verdict = verdicts.at(-1);
    assert.equal(verdict?.kind, "sent", `the message was sent, and reconcile says ${verdict?.kind}`);
    assert.ok(verdict.id, "a verdict of sent without an id");
    assert.equal(await taken(rig, letter.text), 1, "reconcile sent the message again");
  });
}

async function missesWhatWasNot(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const [other, letter] = [compose(rig, "other"), compose(rig, "missing")];
    await sendNow(rig, other);
    const { kind } = await lookUp(rig, letter);
    const right = subject.harness.lacks?.absence === undefined ? "not-sent" : "unsure";
    assert.equal(kind, right, `the message was not sent, and reconcile says ${kind}`);
    assert.equal(await taken(rig, letter.text), 0, "reconcile sent the message");
  });
}

async function staysUnsure(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const letter = compose(rig, "unreachable");
    await rig.peer.fault("refuse-connection");
    const { kind } = await lookUp(rig, letter);
    assert.equal(kind, "unsure", `the peer could not be asked, and reconcile says ${kind}`);
  });
}

type ProbeResult = ChannelStatus["state"] | "a throw";

async function probed(rig: Rig): Promise<ProbeResult> {
  const look = present(rig.adapter.probe?.bind(rig.adapter), "the adapter has no probe", "probe");
  return attempt(() => look(deadline(rig.patienceMs))).then(
    (status) => status.state,
    () => "a throw" as const,
  );
}

const probesReady = (subject: AdapterUnderTest) =>
  withRig(subject, async (rig) => {
    assert.equal(await probed(rig), "ready", "the peer is well, and probe says otherwise");
    assert.deepEqual(rig.channel.calls, [], "probe called accept");
    if (rig.peer.delivered) assert.deepEqual(await rig.peer.delivered(), [], "probe sent something");
  });

const probesUnauthorized = (subject: AdapterUnderTest) =>
  withRig(
    subject,
    async (rig) => {
      const state = await probed(rig);
      assert.equal(state, "unauthorized", `the login is rejected, and probe says ${state}`);
    },
    { credentials: "wrong" },
  );

const probesAway = (subject: AdapterUnderTest) =>
  withRig(subject, async (rig) => {
    await rig.peer.fault("refuse-connection");
    const state = await probed(rig);
    assert.ok(state === "degraded" || state === "a throw", `nobody listens, and probe says ${state}`);
  });

export const lookingChecks: readonly Check[] = [
  { name: "reconcile: finds what was sent", needs: ["outbound", "reconcile"], run: findsWhatWasSent },
  {
    name: "reconcile: does not find what was not sent",
    needs: ["outbound", "reconcile"],
    run: missesWhatWasNot,
  },
  {
    name: "reconcile: is unsure of a peer that is away",
    needs: ["outbound", "reconcile", "refuse-connection"],
    run: staysUnsure,
  },
  { name: "probe: ready when all is well, and changes nothing", needs: ["probe"], run: probesReady },
  {
    name: "probe: unauthorized when the login is rejected",
    needs: ["probe", "credentials"],
    run: probesUnauthorized,
  },
  { name: "probe: degraded when nobody listens", needs: ["probe", "refuse-connection"], run: probesAway },
];
