// The whole pipeline on a real store, with the real client against a scripted platform, in a time that tests set
// forward. Nothing sweeps by itself unless a test lets it.

import {
  type Adapter,
  type Clock,
  externalId,
  type InboundEvent,
  type MessageEvent,
  type Outbound,
} from "bridgehead/contract";
import { expect, onTestFinished } from "vitest";
import { createAgentClient } from "../../../src/agent/index.ts";
import { heartbeatStage } from "../../../src/calls/node-heartbeat.ts";
import { CallSessions } from "../../../src/calls/sessions.ts";
import type { RateReserve } from "../../../src/engine/rate-reserve.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import { steadyNow } from "../../../src/ops/clock.ts";
import { type TimingOverrides, timingWith } from "../../../src/ops/timing.ts";
import { accept } from "../../../src/pipeline/accept/stage.ts";
import { askStage } from "../../../src/pipeline/ask/stage.ts";
import type { ChannelRules, ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { composeStage } from "../../../src/pipeline/compose/stage.ts";
import { fetchStage } from "../../../src/pipeline/fetch/stage.ts";
import { routeStage } from "../../../src/pipeline/route/stage.ts";
import { sendStage } from "../../../src/pipeline/send/stage.ts";
import type { Database } from "../../../src/store/driver.ts";
import { type EventSummary, listEvents, releaseEvent } from "../../../src/store/operators/inbox.ts";
import type { Rate } from "../../../src/store/rates.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { sleepersOn } from "../clock.ts";
import { sqlitePlace } from "../store/databases.ts";
import { type ScriptedPlatform, startPlatform } from "./scripted-platform.ts";
import { lineOf, listen, reserveOf, watched } from "./stage.ts";

export interface TestClock extends Clock {
  /** Time passes. */
  forward(ms: number): void;
  /** Somebody sets the wall clock; no time passes. */
  set(ms: number): void;
  /** How many wait for time to pass. */
  sleeping(): number;
}

/** `still`: only such time passes that a test lets pass. */
export function testClock(still = false): TestClock {
  let [passed, moved] = [0, 0];
  const began = Date.now();
  const machine = () => (still ? 0 : performance.now());
  const monotonic = () => machine() + passed;
  const sleepers = sleepersOn(monotonic);
  return {
    now: () => Math.floor((still ? began : Date.now()) + passed + moved),
    monotonic,
    sleep: sleepers.sleep,
    forward(ms) {
      passed += ms;
      sleepers.rouse();
    },
    set: (ms) => void (moved += ms),
    sleeping: () => sleepers.count(),
  };
}

export interface HouseOptions {
  readonly channels?: readonly string[];
  readonly rules?: Partial<ChannelRules>;
  readonly outbound?: Partial<Outbound>;
  /** Serves attachments that were announced with a `ref`. */
  readonly open?: Adapter["open"];
  readonly rate?: Pick<Rate, "interval" | "tolerance">;
  readonly timeout?: number;
  readonly settleAfter?: number;
  readonly node?: string;
  readonly timing?: TimingOverrides;
  readonly clock?: TestClock;
  readonly platform?: ScriptedPlatform;
  /** The store as the pipeline meets it. */
  readonly db?: Database;
  readonly faulty?: (db: Database) => Database;
  readonly line?: (line: ChannelRuntime) => ChannelRuntime;
  /** Nobody ends what became obsolete: it ends by itself. */
  readonly deaf?: boolean;
}

export interface House {
  readonly platform: ScriptedPlatform;
  readonly clock: TestClock;
  readonly db: Database;
  readonly scheduler: Scheduler;
  readonly client: ChannelRuntime["client"];
  readonly rate: RateReserve;
  readonly heard: readonly string[];
  /** The texts that went out. */
  readonly sent: string[];
  /** A mail comes in. Resolves when all that could follow at once has. */
  arrives(...mails: readonly (Partial<MessageEvent> & { readonly text: string })[]): Promise<void>;
  /** Events of any channel; nothing is waited for. */
  accepts(channel: string, ...events: readonly InboundEvent[]): Promise<void>;
  /** All that is due is begun and ended. */
  settles(): Promise<void>;
  /** Time passes, in steps; at each one all that is due is begun and ended. */
  passes(ms: number, step?: number): Promise<void>;
  turns(): Promise<readonly { id: string; state: string; attempts: number; reason: string | null }[]>;
  drafts(): Promise<readonly string[]>;
  listed(state: EventSummary["state"]): Promise<readonly (string | null)[]>;
  /** What the operator's `inbox answer` does. */
  releases(event?: number): Promise<void>;
  /** Sweeps until the test ends. */
  sweeps(): void;
}

let letters = 0;
export function mail(over: Partial<MessageEvent> & { readonly text: string }): MessageEvent {
  const id = externalId(`mail-${++letters}`);
  return {
    kind: "message",
    id,
    from: { address: "ada@example.org" },
    to: [{ address: "us@example.org" }],
    thread: { answers: [] },
    sentAt: new Date(),
    ...over,
  };
}

export async function openHouse(options: HouseOptions = {}): Promise<House> {
  const channels = options.channels ?? ["c"];
  const clock = options.clock ?? testClock();
  const platform = options.platform ?? (await startPlatform());
  const db = options.db ?? (await watched(() => sqlitePlace(steadyNow(clock))));
  for (const channel of channels) await db.tx((q) => ensureChannel(q, channel));
  const { log, lines: heard } = listen();
  const timeout = options.timeout ?? 5000;
  const rate = reserveOf(options.faulty?.(db) ?? db, clock, options.rate);
  const client = createAgentClient({ url: platform.url, agentKey: "key", timeoutMs: timeout, clock, log });
  const sent: string[] = [];
  const outbound: Outbound = {
    compose: (reply) => [{ text: reply.text }],
    send: async (body, attempt) => {
      await attempt.crossing();
      sent.push((body as { text: string }).text);
      return { kind: "sent", id: externalId(`sent-${attempt.key}`) };
    },
    ...options.outbound,
  };
  const wrap = options.line ?? ((line: ChannelRuntime) => line);
  const lines = new Map(
    channels.map((channel) => [
      channel,
      wrap({
        ...lineOf({ outbound, ...(options.rules ? { rules: options.rules } : {}) }),
        open: options.open ?? null,
        channel,
        client,
      }),
    ]),
  );
  const timing = timingWith(
    options.timing,
    timingWith({ send: { attempt: 60_000 }, fetch: { attempt: 60_000 } }),
  );
  const deps = {
    lines: () => lines,
    sessions: new CallSessions(timing.calls),
    db,
    clock,
    log,
    node: options.node ?? "n",
    timing,
  };
  const scheduler: Scheduler = new Scheduler({
    db: options.faulty?.(db) ?? db,
    clock,
    log,
    timing: deps.timing,
    transactional: [
      routeStage({ ...deps, cancel: (key) => void (options.deaf || scheduler.cancel(key)) }),
      composeStage(deps),
      heartbeatStage(deps),
    ],
    stages: [
      askStage({ ...deps, rate, timeout, settleAfter: options.settleAfter ?? 10_000 }),
      sendStage(deps),
      fetchStage({ ...deps, mostBytes: 1000 }),
    ],
    capacity: (_, channel) => lines.get(channel)?.rules.concurrency ?? 0,
  });
  onTestFinished(async () => {
    await scheduler.drain(0);
    await client.close();
  });

  /** Work beyond a stage's room begins when what runs has ended. */
  async function settles(running = () => scheduler.running()): Promise<void> {
    for (;;) {
      await scheduler.sweep();
      if (running() === 0) return;
      await expect.poll(running, { interval: 1 }).toBe(0);
    }
  }
  return {
    platform,
    clock,
    db,
    scheduler,
    client,
    rate,
    heard,
    sent,
    settles: () => settles(),
    async accepts(channel, ...events) {
      await accept(scheduler, channel, events, null, deps.node);
    },
    async arrives(...mails) {
      await accept(scheduler, "c", mails.map(mail), null, deps.node);
      await settles();
    },
    async passes(ms, step = ms / 10) {
      for (let gone = 0; gone < ms; gone += step) {
        clock.forward(step);
        // What waits for its turn in the rate waits for the next step.
        await settles(() => Math.max(0, scheduler.running() - clock.sleeping()));
      }
    },
    turns: () =>
      db.read((q) => q.all("SELECT id, state, attempts, reason FROM turns ORDER BY conversation, seq")),
    drafts: async () =>
      (
        await db.read((q) =>
          q.all<{ state: string }>("SELECT state FROM drafts ORDER BY created_at, conversation, seq"),
        )
      ).map(({ state }) => state),
    listed: async (state) =>
      (await db.read((q) => listEvents(q, { state: state as "failed" | "ignored" | "held", limit: 9 }))).map(
        ({ code }) => code,
      ),
    async releases(event = 1) {
      await scheduler.commit((q) => releaseEvent(q, event));
      await settles();
    },
    sweeps() {
      const abort = new AbortController();
      const swept = scheduler.run(abort.signal);
      onTestFinished(async () => {
        abort.abort();
        await swept;
      });
    },
  };
}
