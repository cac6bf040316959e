// Rules of what an adapter leaves behind: free capacity after each send, nothing of an ended call, no secret in its words.

import assert from "node:assert/strict";
import { type Check, capacityOf, check, type Fixture, graceMs, present, whileRunning } from "../fixture.ts";
import type { Fault } from "../harness.ts";
import { attempt, eventually, within } from "../patience.ts";
import { watchRemains } from "../stillness.ts";
import { compose, send } from "./send.ts";

const can = ({ harness }: Fixture, fault: Fault) => harness.lacks?.[fault] === undefined;
const aborted = () => AbortSignal.abort(new Error("the attempt's deadline (planted)"));

/** A send that ends without success must free its slot like any other. */
async function freesItsSlot(fixture: Fixture): Promise<void> {
  const capacity = capacityOf(fixture);
  const idle = capacity();
  const isFree = async (when: string) => {
    await eventually("free capacity", () => capacity() === idle, graceMs).catch(() => undefined);
    const fix = "count a send down in a finally block, as countedSends does";
    assert.equal(capacity(), idle, `capacity() is not ${idle} again after a send that ${when}: ${fix}`);
  };
  await send(fixture, compose(fixture, "stopped"), { crossing: () => Promise.reject(new Error("(planted)")) });
  await isFree("ended at crossing()");
  await send(fixture, compose(fixture, "aborted"), { signal: aborted() });
  await isFree("was aborted");
  for (const fault of (["refuse-message", "later", "cut-after"] as const).filter((one) => can(fixture, one))) {
    await fixture.peer.fault(fault);
    await send(fixture, compose(fixture, fault));
    await isFree(`met "${fault}"`);
    await fixture.peer.fault("none");
  }
}

/** A listener for the abort is never called when the signal has aborted before: the call would wait forever. */
const endsAborted = (part: "run" | "send") => async (fixture: Fixture) => {
  const { inbound } = fixture.adapter;
  const signal = aborted();
  const composed = part === "send" ? compose(fixture, "aborted") : null;
  await fixture.peer.fault("hang-before");
  const work: Promise<unknown> =
    composed === null
      ? attempt(() => present(inbound, "the adapter has no inbound", "inbound").run(null, signal))
      : send(fixture, composed, { signal, crossing: () => Promise.reject(signal.reason) });
  const ended = await within(
    work.catch(() => null),
    graceMs,
  );
  const fix = "call signal.throwIfAborted() before waiting";
  assert.ok(ended, `${part} had not ended after ${graceMs} ms although its signal had aborted before: ${fix}`);
};

async function passesOnTheDelay(fixture: Fixture): Promise<void> {
  const laterMs = present(fixture.peer.laterMs, "the peer has no laterMs", "delay");
  await fixture.peer.fault("later");
  const { outcome } = await send(fixture, compose(fixture, "later"));
  if (outcome?.kind !== "deferred") return; // another rule fails
  const fix = "retryAfterMs is in milliseconds, Retry-After in seconds (retryAfterOf converts it)";
  assert.equal(outcome.retryAfterMs, laterMs, `the peer asked for a delay of ${laterMs} ms: ${fix}`);
}

const endsOnSignal = (part: "probe" | "reconcile") => async (fixture: Fixture) => {
  const end = new AbortController();
  const { adapter } = fixture;
  const { outbound } = adapter;
  const composed = part === "reconcile" ? compose(fixture, "silent") : null;
  await fixture.peer.fault("hang-before");
  const work = attempt(async () => {
    if (composed === null) return present(adapter.probe?.bind(adapter), "the adapter has no probe", part)(end.signal);
    const look = present(outbound?.reconcile?.bind(outbound), "the adapter has no reconcile", part);
    const startedAt = new Date(fixture.channel.clock.now() - 3_600_000);
    return look(composed.draft, { key: composed.key, number: 1, startedAt }, end.signal);
  }).catch(() => null);
  await within(work, fixture.quietMs);
  end.abort(new Error("the deadline (planted)"));
  const fix = "pass the signal to every connection and wait";
  assert.ok(await within(work, graceMs), `${part} had not ended ${graceMs} ms after its signal: ${fix}`);
};

/** Connections that an adapter keeps for the next request, in a pool, do not increase with every run. */
async function runLeavesNothing(fixture: Fixture): Promise<void> {
  const inbound = present(fixture.adapter.inbound, "the adapter has no inbound", "inbound");
  const remains = watchRemains();
  const run: typeof inbound.run = (start, signal) => remains.watch(() => inbound.run(start, signal));
  const runOnce = async () => {
    const before = fixture.channel.statuses.length;
    const isReady = () => fixture.channel.statuses.slice(before).some(({ state }) => state === "ready");
    // A later run need not report again what has not changed.
    const ms = before === 0 ? fixture.patienceMs : fixture.quietMs;
    await whileRunning({ ...fixture, adapter: { inbound: { run } } }, () =>
      fixture.channel.until("a report of ready", isReady, ms).catch((error: unknown) => {
        if (before === 0) throw error;
      }),
    );
  };
  try {
    await runOnce();
    await eventually("the end", () => remains.list().length === 0, graceMs).catch(() => undefined);
    const kept = remains.list().length;
    await runOnce();
    await runOnce();
    await eventually("the end", () => remains.list().length <= kept, graceMs).catch(() => undefined);
    const left = remains.list();
    const fix = "close connections with `await using` or in a finally block, and pass the signal to clock.sleep";
    assert.ok(
      left.length <= kept,
      `${graceMs} ms after three runs had ended, there remained ${left.join(", ")}: ${fix}`,
    );
  } finally {
    remains.end();
  }
}

/** Shorter texts may be words of a sentence, such as "wrong". */
const shortestSecret = 8;

/** Returns every text in which the right and the wrong credentials differ. */
export function secretsOf(right: unknown, wrong: unknown): readonly string[] {
  if (typeof right === "string" && typeof wrong === "string")
    return right === wrong ? [] : [right, wrong].filter(({ length }) => length >= shortestSecret);
  if (right === null || wrong === null || typeof right !== "object" || typeof wrong !== "object") return [];
  return Object.entries(right).flatMap(([key, value]) => secretsOf(value, (wrong as Record<string, unknown>)[key]));
}

async function keepsSecrets(fixture: Fixture): Promise<void> {
  const { adapter, channel, peer } = fixture;
  const said: string[] = [];
  if (adapter.probe) said.push(JSON.stringify(await adapter.probe(fixture.sends.signal).catch(() => null)));
  if (adapter.inbound) {
    const reported = () => channel.statuses.some(({ state }) => state !== "connecting");
    await whileRunning(fixture, () => channel.until("a report of the state", reported, fixture.patienceMs));
  }
  if (adapter.outbound) {
    const faults = (["later", "refuse-message", "refuse-connection"] as const).filter((fault) => can(fixture, fault));
    for (const fault of ["none" as const, ...faults]) {
      await peer.fault(fault);
      said.push(await send(fixture, compose(fixture, "secret")).then(({ detail }) => detail, String));
    }
  }
  const fields = (value: unknown): unknown => (value instanceof Error ? `${value.message} ${value.stack}` : value);
  const text = JSON.stringify([said, channel.logged, channel.statuses, [...channel.warnings]], (_, value) =>
    fields(value),
  );
  for (const secret of secretsOf(peer.config("right"), peer.config("wrong"))) {
    const at = text.indexOf(JSON.stringify(secret).slice(1, -1));
    // The secret is not repeated in the message.
    const around = text.slice(Math.max(0, at - 80), at);
    const what = `a secret of the configuration appears in a log line, a status or an outcome, after ${around}`;
    assert.ok(at < 0, `${what}: name the failure, never the request or the block`);
  }
}

const secrets = (credentials: "right" | "wrong"): Check =>
  check(`secrets: ${credentials} credentials appear in no log, status or outcome`, ["credentials"], keepsSecrets, {
    credentials,
  });

export const remainsChecks: readonly Check[] = [
  check("capacity: a send that fails frees its slot", ["outbound", "capacity"], freesItsSlot),
  check("send: ends when its signal has aborted before", ["outbound", "hang-before"], endsAborted("send")),
  check("inbound: run ends when its signal has aborted before", ["inbound", "hang-before"], endsAborted("run")),
  check(
    "send: passes on the delay that the peer asks for, in milliseconds",
    ["outbound", "later", "delay"],
    passesOnTheDelay,
  ),
  check(
    "reconcile: ends within a second of its signal",
    ["outbound", "reconcile", "hang-before"],
    endsOnSignal("reconcile"),
  ),
  check("probe: ends within a second of its signal", ["probe", "hang-before"], endsOnSignal("probe")),
  check("inbound: run leaves no connection and no timer behind", ["inbound"], runLeavesNothing),
  secrets("right"),
  secrets("wrong"),
];
