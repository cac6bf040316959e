// Rules of the functions without side effects: `reconcile` and `probe`.

import assert from "node:assert/strict";
import { type ChannelStatus, type Finding, type PastAttempt, wrongFinding, wrongStatus } from "../../index.ts";
import { noFiles } from "../files.ts";
import { assertRight, type Check, check, type Fixture, outboundOf, present } from "../fixture.ts";
import { attempt, deadline, eventually } from "../patience.ts";
import { arrives, type ComposedDraft, compose, taken } from "./send.ts";

/** Returns the finding on an attempt made an hour ago. A throw counts as "unsure", as in the core. */
async function lookUp(fixture: Fixture, composed: ComposedDraft): Promise<Finding> {
  const outbound = outboundOf(fixture);
  const look = present(outbound.reconcile?.bind(outbound), "the adapter has no reconcile", "reconcile");
  const startedAt = new Date(fixture.channel.clock.now() - 3_600_000);
  const past: PastAttempt = { key: composed.key, number: 1, startedAt };
  const finding = await attempt(() => look(composed.draft, past, deadline(fixture.patienceMs))).catch(
    (): Finding => ({ kind: "unsure" }),
  );
  assertRight(wrongFinding(finding), "reconcile returned");
  return finding;
}

async function sendNow(fixture: Fixture, composed: ComposedDraft): Promise<void> {
  const signal = deadline(fixture.patienceMs);
  const made = { key: composed.key, number: 1, signal, crossing: () => Promise.resolve(), read: noFiles };
  await outboundOf(fixture).send(composed.draft, made);
  await arrives(fixture, composed.text);
}

async function findsWhatWasSent(fixture: Fixture): Promise<void> {
  const composed = compose(fixture, "found");
  await sendNow(fixture, composed);
  const findings: Finding[] = [];
  const sure = async () => findings.push(await lookUp(fixture, composed)) > 0 && findings.at(-1)?.kind !== "unsure";
  await eventually("a finding on a message that was sent", sure, fixture.patienceMs);
  const finding = findings.at(-1);
  assert.equal(finding?.kind, "sent", `the message was sent, and reconcile says ${finding?.kind}`);
  assert.notEqual(finding.id, "", "a finding of sent without an id");
  assert.equal(await taken(fixture, composed.text), 1, "reconcile sent the message again");
}

async function missesWhatWasNot(fixture: Fixture): Promise<void> {
  const [other, composed] = [compose(fixture, "other"), compose(fixture, "missing")];
  await sendNow(fixture, other);
  const { kind } = await lookUp(fixture, composed);
  const right = fixture.harness.lacks?.absence === undefined ? "not-sent" : "unsure";
  assert.equal(kind, right, `the message was not sent, and reconcile says ${kind}`);
  assert.equal(await taken(fixture, composed.text), 0, "reconcile sent the message");
}

async function staysUnsure(fixture: Fixture): Promise<void> {
  const composed = compose(fixture, "unreachable");
  await fixture.peer.fault("refuse-connection");
  const { kind } = await lookUp(fixture, composed);
  assert.equal(kind, "unsure", `the peer could not be asked, and reconcile says ${kind}`);
}

type ProbeResult = ChannelStatus["state"] | "a throw";

async function probed(fixture: Fixture): Promise<ProbeResult> {
  const look = present(fixture.adapter.probe?.bind(fixture.adapter), "the adapter has no probe", "probe");
  const status = await attempt(() => look(deadline(fixture.patienceMs))).catch(() => null);
  if (status === null) return "a throw";
  assertRight(wrongStatus(status), "probe returned");
  return status.state;
}

async function probesReady(fixture: Fixture): Promise<void> {
  assert.equal(await probed(fixture), "ready", "the peer is well, and probe says otherwise");
  assert.deepEqual(fixture.channel.calls, [], "probe called accept");
  if (fixture.peer.delivered) assert.deepEqual(await fixture.peer.delivered(), [], "probe sent something");
}

async function probesUnauthorized(fixture: Fixture): Promise<void> {
  const state = await probed(fixture);
  assert.equal(state, "unauthorized", `the login is rejected, and probe says ${state}`);
}

async function probesAway(fixture: Fixture): Promise<void> {
  await fixture.peer.fault("refuse-connection");
  const state = await probed(fixture);
  assert.ok(state === "degraded" || state === "a throw", `nobody listens, and probe says ${state}`);
}

export const reconcileChecks: readonly Check[] = [
  check("reconcile: finds what was sent", ["outbound", "reconcile"], findsWhatWasSent),
  check("reconcile: does not find what was not sent", ["outbound", "reconcile"], missesWhatWasNot),
  check("reconcile: is unsure of a peer that is away", ["outbound", "reconcile", "refuse-connection"], staysUnsure),
  check("probe: ready when all is well, and changes nothing", ["probe"], probesReady),
  check("probe: unauthorized when the login is rejected", ["probe", "credentials"], probesUnauthorized, {
    credentials: "wrong",
  }),
  check("probe: degraded when nobody listens", ["probe", "refuse-connection"], probesAway),
];
