// The whole pipeline on a real store, with the real client against a scripted platform, and a clock that tests advance.
// Sweeps run only when a test requests them.

import {
  type Adapter,
  type Clock,
  externalId,
  type InboundEvent,
  type MessageEvent,
  type Outbound,
  type Reply,
  type SendOutcome,
  type SessionEvent,
  type SessionId,
  sessionId,
} from "bridgehead/contract";
import { expect, onTestFinished } from "vitest";
import type { AgentSettings, ChannelSettings } from "../../../src/agent/calls.ts";
import { createAgentClient } from "../../../src/agent/index.ts";
import { heartbeatStage } from "../../../src/calls/heartbeat/stage.ts";
import { loseSessions } from "../../../src/calls/rows.ts";
import { CallSessions } from "../../../src/calls/sessions.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import type { Stage } from "../../../src/engine/stage.ts";
import { steadyNow } from "../../../src/ops/clock.ts";
import { type TimingOverrides, timingWith } from "../../../src/ops/timing.ts";
import { accept } from "../../../src/pipeline/accept/stage.ts";
import { askStage } from "../../../src/pipeline/ask/stage.ts";
import type { ChannelRules, ChannelRuntime, ChannelRuntimes } from "../../../src/pipeline/channel-runtime.ts";
import { composeStage } from "../../../src/pipeline/compose/stage.ts";
import { fetchStage } from "../../../src/pipeline/fetch/stage.ts";
import { routeStage } from "../../../src/pipeline/route/stage.ts";
import { sendStage } from "../../../src/pipeline/send/stage.ts";
import type { Core, Database } from "../../../src/store/driver.ts";
import { endLeases } from "../../../src/store/leases.ts";
import { type EventSummary, listEvents, releaseEvent } from "../../../src/store/operators/inbox.ts";
import type { Rate, RateReserve } from "../../../src/store/rates.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { readSession, sessionParty } from "../../../src/store/tables/sessions.ts";
import { noteDefaultAddress } from "../../../src/store/tables/suppressions.ts";
import { sleepersOn } from "../clock.ts";
import { activeSettings, lineOf, mail } from "../rows.ts";
import { sqliteDatabase } from "../store/databases.ts";
import { listen, reserveOf, type ScriptedPlatform, startPlatform, watched } from "./stage.ts";

export { mail } from "../rows.ts";

export interface TestClock extends Clock {
  /** Time passes. */
  forward(ms: number): void;
  /** Sets the wall clock; the monotonic clock does not move. */
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
  const sleepers = sleepersOn(monotonic, still);
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

export interface TestPipelineOptions {
  readonly channels?: readonly string[];
  readonly rules?: Partial<ChannelRules>;
  readonly outbound?: Partial<Outbound>;
  /** Serves attachments that were announced with a `ref`. */
  readonly open?: Adapter["open"];
  readonly rate?: Pick<Rate, "interval" | "tolerance">;
  readonly timeout?: number;
  readonly absentAfter?: number;
  readonly node?: string;
  readonly timing?: TimingOverrides;
  readonly clock?: TestClock;
  readonly platform?: ScriptedPlatform;
  /** The store as the pipeline meets it. */
  readonly db?: Database;
  readonly faulty?: (db: Database) => Database;
  readonly line?: (line: ChannelRuntime) => ChannelRuntime;
  /** Obsolete work is not cancelled: it ends at its own deadline. */
  readonly deaf?: boolean;
  /** Stages besides those of the pipeline. */
  readonly stages?: (
    deps: Core & { readonly lines: () => ChannelRuntimes; readonly rate: RateReserve },
  ) => readonly Stage[];
}

export interface TestPipeline {
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

export async function openPipeline(options: TestPipelineOptions = {}): Promise<TestPipeline> {
  const channels = options.channels ?? ["c"];
  const clock = options.clock ?? testClock();
  const platform = options.platform ?? (await startPlatform());
  const db = options.db ?? (await watched(() => sqliteDatabase(steadyNow(clock))));
  for (const channel of channels)
    await db.tx(async (q) => {
      await ensureChannel(q, channel);
      await noteDefaultAddress(q, channel, options.outbound?.ownAddress ?? null);
    });
  const { log, lines: heard } = listen();
  const timeout = options.timeout ?? 60_000;
  const timing = timingWith(options.timing, timingWith({ send: { attempt: 60_000 }, fetch: { attempt: 60_000 } }));
  const rate = reserveOf(options.faulty?.(db) ?? db, clock, options.rate);
  const client = createAgentClient({ url: platform.url, agentKey: "key", timeoutMs: timeout, clock, log, timing });
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
    node: deps.node,
    clock,
    log,
    timing: deps.timing,
    transactional: [
      routeStage({ ...deps, cancel: (key) => void (options.deaf || scheduler.cancel(key)) }),
      composeStage(deps),
      heartbeatStage(deps),
    ],
    stages: [
      askStage({ ...deps, rate, timeout, absentAfter: options.absentAfter ?? 10_000 }),
      sendStage(deps),
      fetchStage({ ...deps, mostBytes: 1000 }),
      ...(options.stages?.({ ...deps, rate }) ?? []),
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
    turns: () => db.read((q) => q.all("SELECT id, state, attempts, reason FROM turns ORDER BY conversation, seq")),
    drafts: async () =>
      (
        await db.read((q) =>
          q.all<{ state: string }>("SELECT state FROM drafts ORDER BY created_at, conversation, seq"),
        )
      ).map(({ state }) => state),
    listed: async (state) =>
      (await db.read((q) => listEvents(q, { state: state as "failed" | "ignored" | "held", limit: 9 }))).events.map(
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

// A pipeline for texts: one conversation for each person, and every reply recorded as it was composed.

export interface Texts extends TestPipeline {
  /** What compose was given, in order, as often as it was. A text is cut into parts at each `|`. */
  readonly replies: Reply[];
  /** `address: text` of what went out. */
  readonly texts: string[];
  /** A text comes in. Resolves when all that could follow at once has. */
  says(text: string, over?: Partial<MessageEvent>): Promise<void>;
  /** Several, in one commit. */
  say(...texts: readonly Partial<MessageEvent>[]): Promise<void>;
  /** The process dies and another begins on the same store. */
  reborn(): Promise<Texts>;
  state(event?: number): Promise<{ state: string; code: string | null; conversation: string | null }>;
}

export interface TextOptions extends TestPipelineOptions {
  /** Seconds until a reply may go out. */
  readonly delay?: number;
  readonly skill?: Partial<ChannelSettings>;
  /** What the provider says to the n-th send, counted from 1. */
  readonly provider?: (count: number, text: string) => SendOutcome | undefined;
  /** Our default number, where opt-outs apply to single numbers. */
  readonly ownAddress?: string;
}

export const ann = "+15550111";

const smsSettings = (options: TextOptions): AgentSettings => {
  const base = activeSettings({ delay: options.delay ?? 0 });
  const sms = base.email && { ...base.email, ...options.skill };
  return { ...base, sms, voice: sms };
};

export async function openTexts(options: TextOptions = {}): Promise<Texts> {
  const replies: Reply[] = [];
  const texts: string[] = [];
  let sends = 0;
  const outbound: Outbound = {
    ...(options.ownAddress !== undefined && { ownAddress: options.ownAddress }),
    compose(reply) {
      replies.push(reply);
      const to = reply.to[0]?.address ?? "";
      return reply.text.split("|").map((text) => ({ text, to }));
    },
    async send(body, attempt) {
      await attempt.crossing();
      const { text, to } = body as { text: string; to: string };
      const outcome = options.provider?.(++sends, text);
      if (outcome) return outcome;
      texts.push(`${to}: ${text}`);
      return { kind: "sent", id: externalId(`sent-${attempt.key}`) };
    },
  };
  const settings = smsSettings(options);
  const wrap = options.line ?? ((line: ChannelRuntime) => line);
  const line = (given: ChannelRuntime): ChannelRuntime =>
    wrap({
      ...given,
      settings: () => settings,
      traits: { ...given.traits, platform: "sms", conversations: "person" },
    });
  const pipeline = await openPipeline({ ...options, outbound, line });
  const text = (over: Partial<MessageEvent>): MessageEvent =>
    mail({
      text: "",
      from: { address: ann },
      to: [{ address: "+15550100" }],
      sentAt: new Date(pipeline.clock.now()),
      ...over,
    });
  const say = async (...said: readonly Partial<MessageEvent>[]) => {
    await pipeline.accepts("c", ...said.map(text));
    await pipeline.settles();
  };
  return {
    ...pipeline,
    replies,
    texts,
    say,
    says: (words, over) => say({ text: words, ...over }),
    async reborn() {
      await pipeline.scheduler.drain(0);
      await pipeline.db.tx(endLeases);
      const { clock, db, platform } = pipeline;
      return openTexts({ ...options, clock, db, platform });
    },
    async state(event = 1) {
      const row = await pipeline.db.read((q) =>
        q.one<{ state: string; code: string | null; conversation: string | null }>(
          "SELECT state, code, conversation FROM events WHERE id = $1",
          event,
        ),
      );
      if (!row) throw new Error(`there is no event ${event}`);
      return row;
    },
  };
}

// A call as the pipeline sees it: the events of an adapter, and what was spoken.

/** What the adapter was given to say. */
export interface Said {
  readonly text: string;
  readonly session: SessionId | null;
  readonly answers: string | null;
  readonly kind: string;
}

export interface CallPipeline extends TestPipeline {
  readonly said: readonly Said[];
  /** The outcomes of the next attempts to speak; later ones succeed. */
  readonly outcomes: SendOutcome[];
  /** Every question so far, as the platform was asked it. */
  asked(): readonly string[];
  /** Waits until the platform was called so often in that way. */
  called(begin: string, times: number): Promise<void>;
  state(): Promise<{ turns: readonly string[]; drafts: readonly string[] }>;
}

/** A channel of calls. A person is a mailbox here: the scripted platform knows them by it. */
export async function openCallPipeline(
  options: TestPipelineOptions & { readonly delay?: number; readonly status?: () => "active" | "inactive" } = {},
): Promise<CallPipeline> {
  const said: Said[] = [];
  const outcomes: SendOutcome[] = [];
  const outbound: Outbound = {
    compose: ({ text, session, answers, kind }) => [{ text, session, answers, kind }],
    async send(draft, attempt) {
      await attempt.crossing();
      const outcome = outcomes.shift() ?? { kind: "sent", id: externalId(`said-${attempt.key}`) };
      if (outcome.kind === "sent") said.push(draft as unknown as Said);
      return outcome;
    },
  };
  const settings = activeSettings({ delay: options.delay ?? 0 });
  const pipeline = await openPipeline({
    ...options,
    outbound: { ...outbound, ...options.outbound },
    line: (line): ChannelRuntime => ({
      ...line,
      traits: { ...line.traits, conversations: "person" },
      settings: () => ({ ...settings, status: options.status?.() ?? "active" }),
    }),
  });
  return {
    ...pipeline,
    said,
    outcomes,
    asked: () =>
      pipeline.platform.calls.filter((call) => call.startsWith("ask ")).map((call) => call.slice("ask ".length)),
    called: (begin, times) => expect.poll(() => pipeline.platform.count(begin), { interval: 2 }).toBe(times),
    state: async () => {
      const turns = await pipeline.turns();
      return { turns: turns.map(({ state }) => state), drafts: await pipeline.drafts() };
    },
  };
}

let events = 0;

/** A pipeline with an open call. */
export async function openedCall(options?: Parameters<typeof openCallPipeline>[0]) {
  const pipeline = await openCallPipeline(options);
  const call = callOf(pipeline);
  await call.opens();
  return { pipeline, call };
}

/** One call as its adapter tells of it. `tells` and `says` wait for nothing. */
export function callOf(
  pipeline: Pick<TestPipeline, "accepts" | "settles" | "db">,
  name = "call",
  from = "ada@example.org",
) {
  const session = sessionId(name);
  const event = (state: SessionEvent["state"], over: Partial<SessionEvent> = {}): SessionEvent => ({
    kind: "session",
    id: externalId(`${name}-${++events}`),
    session,
    state,
    from: { address: from },
    ...over,
  });
  const tells = (state: SessionEvent["state"], over: Partial<SessionEvent> = {}) =>
    pipeline.accepts("c", event(state, over));
  const words = (text: string, over: Partial<MessageEvent> = {}): MessageEvent =>
    mail({ text, from: { address: from }, thread: { session }, ...over });
  return {
    session,
    words,
    event,
    tells,
    /** The id of the spoken message. */
    async says(text: string, over: Partial<MessageEvent> = {}) {
      const message = words(text, over);
      await pipeline.accepts("c", message);
      return message.id;
    },
    async opens() {
      await tells("opened");
      await pipeline.settles();
    },
    facts: () =>
      pipeline.db.read(async (q) => {
        const row = await readSession(q, "c", name);
        return row && { ...row, ...(await sessionParty(q, row)) };
      }),
  };
}

/** What a start does on a store that only one process may use. */
export async function restart(pipeline: Pick<TestPipeline, "db">): Promise<void> {
  await pipeline.db.tx(async (q) => {
    await endLeases(q);
    await loseSessions(q);
  });
}
