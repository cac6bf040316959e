// What one check works with: a fresh peer, a fresh channel, a fresh adapter, all taken down at its end.

import { randomBytes } from "node:crypto";
import { setTimeout as pass } from "node:timers/promises";
import type { Adapter, AdapterDefinition, Clock, Inbound, Outbound } from "../index.ts";
import { type RecordingChannel, recordingChannel } from "./channel.ts";
import type { Ability, Harness, Peer } from "./harness.ts";
import { attempt, within } from "./patience.ts";

/** An adapter under test and how to reach it. */
export interface Subject {
  readonly definition: AdapterDefinition;
  readonly harness: Harness;
}

/** One rule. `run` resolves when the adapter keeps it and rejects with what it did instead. */
export interface Check {
  readonly name: string;
  /** The rule is asserted unless the harness declares one of these lacking. */
  readonly needs: readonly Ability[];
  run(subject: Subject): Promise<void>;
}

export interface Rig extends Subject {
  readonly peer: Peer;
  readonly channel: RecordingChannel;
  readonly adapter: Adapter;
  readonly patienceMs: number;
  readonly quietMs: number;
}

/** `run` kept alive as the core does it: started with the last committed cursor, and again when it throws. */
export interface Running {
  /** How `run` ended so far without being told to: what it threw, or `null` when it just returned. */
  readonly ends: readonly unknown[];
  /** Aborts; the milliseconds until `run` had ended, or null when it had not after `graceMs`. */
  stop(graceMs?: number): Promise<number | null>;
}

/** An abort must be obeyed within this time. */
export const graceMs = 1000;

interface RigOptions {
  readonly credentials?: "right" | "wrong";
  readonly clock?: Clock;
}

/** Builds a rig, hands it to `body`, and takes it down whatever comes of it. */
export async function withRig(
  subject: Subject,
  body: (rig: Rig) => Promise<void>,
  options: RigOptions = {},
): Promise<void> {
  const peer = await subject.harness.start();
  try {
    const rig = await makeRig(subject, peer, options);
    await body(rig);
  } finally {
    await peer.stop();
  }
}

/** An adapter at `peer` with a channel of its own. */
export async function makeRig(subject: Subject, peer: Peer, options: RigOptions = {}): Promise<Rig> {
  const { definition, harness } = subject;
  const channel = recordingChannel(options.clock ? { clock: options.clock } : {});
  const config = await definition.config.parseAsync(peer.config(options.credentials ?? "right"));
  const adapter = definition.create(channel, config);
  await peer.attach?.(adapter, channel);
  return {
    ...subject,
    peer,
    channel,
    adapter,
    patienceMs: harness.patienceMs ?? 30_000,
    quietMs: harness.quietMs ?? 200,
  };
}

/** Starts the adapter's `run` for the time of `body`, and stops it after it whatever happens. */
export async function whileRunning(rig: Rig, body: (running: Running) => Promise<void>): Promise<void> {
  const inbound: Inbound = present(rig.adapter.inbound, "the adapter has no inbound", "inbound");
  const abort = new AbortController();
  const ends: unknown[] = [];
  const live = async () => {
    while (!abort.signal.aborted) {
      const end = await attempt(() => inbound.run(rig.channel.cursor, abort.signal)).then(
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

/** Resolves when the running adapter says that what comes from now on will be seen. */
export function ready(rig: Rig): Promise<void> {
  const isReady = (channel: RecordingChannel) => channel.statuses.at(-1)?.state === "ready";
  return rig.channel.until("a report of ready", isReady, rig.patienceMs);
}

export function outboundOf(rig: Rig): Outbound {
  return present(rig.adapter.outbound, "the adapter has no outbound", "outbound");
}

/** `part`, or an error that says what to declare. */
export function present<T>(part: T | undefined, what: string, ability: Ability): T {
  if (part === undefined) throw new Error(`${what}, and the harness does not declare "${ability}" lacking`);
  return part;
}

/** A text nobody else writes: `word` and some letters. */
export function mark(word: string): string {
  return `${word} ${letters(8)}`;
}

/** `[a-z]{length}`, at random. */
export function letters(length: number): string {
  return Array.from(randomBytes(length), (byte) => String.fromCharCode(97 + (byte % 26))).join("");
}
