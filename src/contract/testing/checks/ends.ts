// Rules of the end of a channel, and of what its log reveals about people.

import assert from "node:assert/strict";
import { type Check, check, type Fixture, graceMs, httpRouteOf, mark, ready, whileRunning } from "../fixture.ts";
import { attempt, eventually, within } from "../patience.ts";
import { watchRemains } from "../stillness.ts";
import { compose, send } from "./send.ts";

/** Uses every part of the adapter once; `said`: the text of all messages in both directions. */
async function useAll(fixture: Fixture, said: string): Promise<void> {
  const { adapter, channel, peer } = fixture;
  await attempt(async () => adapter.probe?.(fixture.sends.signal)).catch(() => undefined);
  for (const sample of peer.requests?.((path) => channel.url(path)) ?? []) {
    const route = httpRouteOf(adapter, sample);
    for (const request of [sample.good(said), sample.forged(said)])
      if (route) await attempt(() => route.handle(request)).catch(() => undefined);
  }
  if (adapter.outbound) await send(fixture, { ...compose(fixture, said) }).catch(() => undefined);
  if (!adapter.inbound) return;
  await whileRunning(fixture, async () => {
    await ready(fixture);
    await peer.say?.(said);
    const arrived = () => peer.say === undefined || channel.messages.some(({ text }) => text.includes(said));
    await channel.until(`"${said}"`, arrived, fixture.patienceMs);
  });
}

async function closes(fixture: Fixture): Promise<void> {
  const { adapter } = fixture;
  const remains = watchRemains();
  try {
    await remains.watch(() => useAll(fixture, mark("close")));
    const end = new AbortController();
    const closing = attempt(async () => adapter.close?.(end.signal)).then(
      () => null,
      (error: unknown) => ({ error }),
    );
    await within(closing, fixture.quietMs);
    end.abort(new Error("the time to close is over (planted)"));
    const closed = await within(closing, graceMs);
    assert.ok(closed, `close had not ended ${graceMs} ms after its signal`);
    assert.equal(closed.value, null, `close threw ${String(closed.value?.error)}: what cannot be closed is left`);
    await eventually("the end", () => remains.list().length === 0, graceMs).catch(() => undefined);
    const left = remains.list();
    const fix =
      "close pools and clear timers of send, probe and requests in Adapter.close; send `connection: close` with the global fetch";
    assert.deepEqual(left, [], `${graceMs} ms after close, there remained ${left.join(", ")}: ${fix}`);
  } finally {
    remains.end();
  }
}

/** Shorter addresses may be words of a sentence. */
const shortestAddress = 8;

async function keepsPeopleOut(fixture: Fixture): Promise<void> {
  const said = mark("confided");
  await useAll(fixture, said);
  const { channel, peer } = fixture;
  const fields = (_: string, value: unknown) => (value instanceof Error ? `${value.message} ${value.stack}` : value);
  const words = JSON.stringify([channel.logged, channel.statuses, [...channel.warnings]], fields);
  assert.ok(
    !words.includes(said.slice(-8)),
    "a log line or a status contains the text of a message: log ids and counts",
  );
  const people = [...(peer.reply?.to ?? []), ...channel.messages.map(({ from }) => from)];
  const address = people.find((one) => one.address.length >= shortestAddress && words.includes(one.address));
  assert.equal(address, undefined, "a log line or a status contains the address of a person: log ids and counts");
}

export const endChecks: readonly Check[] = [
  check("close: ends with its signal, never throws, and leaves no connection and no timer", [], closes),
  check("log: contains no text of a message and no address", [], keepsPeopleOut),
];
