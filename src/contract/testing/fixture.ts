// The fixture of one check: a new peer, channel and adapter, all stopped at the end of the check.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as pass } from "node:timers/promises";
import {
  type Adapter,
  type AdapterDefinition,
  type Clock,
  type HttpRoute,
  type Inbound,
  type Outbound,
  type Route,
  type SocketRoute,
  type WrongField,
  wrongFieldText,
} from "../index.ts";
import { type RecordingChannel, recordingChannel } from "./channel.ts";
import type { Ability, Harness, Peer, RequestSample } from "./harness.ts";
import { attempt, within } from "./patience.ts";

export interface AdapterUnderTest {
  readonly definition: AdapterDefinition;
  readonly harness: Harness;
}

/** One rule. `run` resolves when the adapter conforms, and rejects with its actual behaviour otherwise. */
export interface Check {
  readonly name: string;
  /** The rule is asserted unless the harness declares one of these lacking. */
  readonly needs: readonly Ability[];
  run(subject: AdapterUnderTest): Promise<void>;
}

/** The sends of one check. A check that fails while a send runs leaves it behind. */
export class BegunSends {
  readonly #end = new AbortController();
  readonly #running = new Set<Promise<unknown>>();

  /** Aborts when the check has ended. */
  readonly signal: AbortSignal = this.#end.signal;

  /** Owns a send until it settles: its rejection belongs to the check, which may have failed before. */
  add(send: Promise<unknown>): void {
    const sending = send
      .catch(() => undefined)
      .finally(() => {
        this.#running.delete(sending);
      });
    this.#running.add(sending);
  }

  /** Aborts the sends that run, and waits until they have settled, `graceMs` at most. */
  async end(): Promise<void> {
    if (this.#running.size === 0) return;
    this.#end.abort(new Error("the check has ended"));
    await within(Promise.all(this.#running), graceMs);
  }
}

export interface Fixture extends AdapterUnderTest {
  readonly sends: BegunSends;
  readonly peer: Peer;
  readonly channel: RecordingChannel;
  readonly adapter: Adapter;
  readonly patienceMs: number;
  readonly quietMs: number;
}

/** A supervised `run`, as in the core: started with the last committed cursor, and restarted when it throws. */
export interface RunningInbound {
  /** How each `run` ended before it was stopped: the thrown error, or `null` when it returned. */
  readonly ends: readonly unknown[];
  /** Aborts `run`. Returns the milliseconds until it ended, or null when it was still running after `graceMs`. */
  stop(graceMs?: number): Promise<number | null>;
}

/** The time in milliseconds within which an adapter must react to an abort. */
export const graceMs = 1000;

export interface FixtureOptions {
  readonly credentials?: "right" | "wrong";
  readonly clock?: Clock;
}

/** Creates a rule whose body gets a new fixture. */
export function check(
  name: string,
  needs: readonly Ability[],
  body: (fixture: Fixture) => Promise<void>,
  options?: FixtureOptions,
): Check {
  return { name, needs, run: (subject) => withFixture(subject, body, options) };
}

/** Creates a fixture, passes it to `body`, and stops it also when `body` fails. */
export async function withFixture(
  subject: AdapterUnderTest,
  body: (fixture: Fixture) => Promise<void>,
  options: FixtureOptions = {},
): Promise<void> {
  const peer = await subject.harness.start();
  const sends = new BegunSends();
  try {
    const fixture = await createFixture({ ...subject, sends }, peer, options);
    await body(fixture);
  } finally {
    await sends.end();
    await peer.stop();
  }
}

/** Creates an adapter with its own channel for `peer`. */
export async function createFixture(
  subject: AdapterUnderTest & Pick<Fixture, "sends">,
  peer: Peer,
  options: FixtureOptions = {},
): Promise<Fixture> {
  const { definition, harness, sends } = subject;
  const channel = recordingChannel(options.clock ? { clock: options.clock } : {});
  const config = await definition.config.parseAsync(peer.config(options.credentials ?? "right"));
  const adapter = definition.create(channel, config);
  await peer.attach?.(adapter, channel);
  return {
    definition,
    harness,
    sends,
    peer,
    channel,
    adapter,
    patienceMs: harness.patienceMs ?? 30_000,
    quietMs: harness.quietMs ?? 200,
  };
}

/** Runs the adapter's `run` while `body` executes, and stops it afterwards also when `body` fails. */
export async function whileRunning(fixture: Fixture, body: (running: RunningInbound) => Promise<void>): Promise<void> {
  const inbound: Inbound = present(fixture.adapter.inbound, "the adapter has no inbound", "inbound");
  const abort = new AbortController();
  const ends: unknown[] = [];
  const live = async () => {
    while (!abort.signal.aborted) {
      const end = await attempt(() => inbound.run(fixture.channel.cursor, abort.signal)).then(
        () => null,
        (error: unknown) => error,
      );
      if (abort.signal.aborted) return;
      ends.push(end);
      await pass(20);
    }
  };
  const life = live();
  const stop = async (ms = graceMs) => {
    const began = performance.now();
    abort.abort();
    return (await within(life, ms)) ? performance.now() - began : null;
  };
  try {
    await body({ ends, stop });
  } finally {
    await stop();
  }
}

/** Resolves when the running adapter reports `ready`: it receives every message from then on. */
export function ready(fixture: Fixture): Promise<void> {
  const { channel, patienceMs } = fixture;
  const isReady = () => channel.statuses.at(-1)?.state === "ready";
  return channel.until("a report of ready", isReady, patienceMs).catch((error: unknown) => {
    const last = channel.statuses.at(-1);
    throw new Error(`${String(error)}; the last report was ${JSON.stringify(last) ?? "none"}`, { cause: error });
  });
}

export function outboundOf(fixture: Fixture): Outbound {
  return present(fixture.adapter.outbound, "the adapter has no outbound", "outbound");
}

export function capacityOf(fixture: Fixture): () => number {
  const outbound = outboundOf(fixture);
  return present(outbound.capacity?.bind(outbound), "the adapter has no capacity()", "capacity");
}

/** Returns the socket route of that path; undefined when the adapter has none. */
export const socketRouteOf = ({ routes = [] }: Adapter, path: string): SocketRoute | undefined =>
  routes.filter((route) => route.kind === "socket").find((route) => route.path === path);

/** Throws when an adapter has given a wrong field. `what` names the call: `probe returned`. `given` is the whole value. */
export function assertRight(wrong: WrongField | null, what: string, given?: string): void {
  const value = given === undefined ? "" : `: ${given}`;
  assert.equal(wrong, null, `${what} ${wrong && wrongFieldText(wrong)}${value}`);
}

/** Returns the http route of a sample; null when the adapter has none. Routes of several methods may share a path. */
export function httpRouteOf({ routes = [] }: Adapter, sample: RequestSample): HttpRoute | null {
  const { method } = sample.good(mark("route"));
  const isIt = (route: Route): route is HttpRoute =>
    route.kind === "http" && route.path === sample.path && route.method === method;
  return routes.find(isIt) ?? null;
}

/** Returns `part`. Throws an error that names the ability to declare when it is missing. */
export function present<T>(part: T | undefined, what: string, ability: Ability): T {
  if (part === undefined) throw new Error(`${what}, and the harness does not declare "${ability}" lacking`);
  return part;
}

/** Returns a unique text: `word` and some random letters. */
export function mark(word: string): string {
  return `${word} ${letters(8)}`;
}

/** Returns random letters: `[a-z]{length}`. */
export function letters(length: number): string {
  return Array.from(randomBytes(length), (byte) => String.fromCharCode(97 + (byte % 26))).join("");
}
