// The stages of the pipeline on a store, run by the real scheduler. The platform and the provider answer in this process,
// without delay. Measures the time that SQLite takes for each stage, or the pages; everything else is not counted.

import { AsyncLocalStorage } from "node:async_hooks";
import { openSync, readSync } from "node:fs";
import { externalId, type MessageEvent, type Outbound } from "bridgehead/contract";
import type { AgentClient, Answer, CallResult, EffectOptions, StartedConversation } from "../../../src/agent/calls.ts";
import { CallSessions } from "../../../src/calls/sessions.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import type { Stage, TransactionalStage } from "../../../src/engine/stage.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { accept } from "../../../src/pipeline/accept/stage.ts";
import { askStage } from "../../../src/pipeline/ask/stage.ts";
import { composeStage } from "../../../src/pipeline/compose/stage.ts";
import { routeStage } from "../../../src/pipeline/route/stage.ts";
import { sendStage } from "../../../src/pipeline/send/stage.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { rateOf } from "../../../src/store/rates.ts";
import { clock, lineOf, listen, reserveOf } from "../../support/pipeline/stage.ts";
import { observeStatements } from "../statement-hook.ts";

/** The drafts are composed in the transition of `ask`. `commit` is the write of all changed pages to the log. */
export const steps = ["accept", "route", "ask", "send", "commit"] as const;
export type Step = (typeof steps)[number];

/** What each step and each of its statements, by its text, has used, in the unit of the meter. */
export type StepUse = Readonly<Record<Step, { total: number; readonly statements: Map<string, number> }>>;

const noUse = (): StepUse =>
  Object.fromEntries(steps.map((step) => [step, { total: 0, statements: new Map() }])) as unknown as StepUse;

/** Returns what has been used up to now. */
export type Meter = () => number;

export const microseconds: Meter = () => Number(process.hrtime.bigint()) / 1000;

/** Returns a meter of the pages that this thread reads and writes: those that the page cache of SQLite does not have, and
 *  those of a commit. The kernel counts the bytes, also those of the meter itself. */
export function pageMeter(): Meter {
  const file = openSync("/proc/thread-self/io", "r");
  const text = Buffer.alloc(500);
  let own = 0;
  return () => {
    const length = readSync(file, text, 0, text.length, 0);
    const [, read, written] = /rchar: (\d+)\s+wchar: (\d+)/.exec(text.toString("latin1", 0, length)) ?? [];
    const bytes = Number(read) + Number(written) - own;
    own += length;
    return bytes / 4096;
  };
}

interface Measured {
  readonly step: Step;
  readonly on: { use: StepUse; meter: Meter };
}

const current = new AsyncLocalStorage<Measured>();

/** Adds the use of every statement to the step in whose context it runs. Called once in a process. */
function measureStatements(): void {
  observeStatements((sql, execute) => {
    const measured = current.getStore();
    if (measured === undefined) return execute();
    const { meter, use } = measured.on;
    const began = meter();
    try {
      return execute();
    } finally {
      const used = meter() - began;
      const step = use[sql === "COMMIT" ? "commit" : measured.step];
      step.total += used;
      step.statements.set(sql, (step.statements.get(sql) ?? 0) + used);
    }
  });
}

let isMeasuring = false;

/** The default caps of a person and a conversation; a burst would exceed the channel's. */
const hour = 3_600_000;
const caps = {
  sender: [
    { max: 6, per: hour },
    { max: 20, per: 24 * hour },
  ],
  conversation: [{ max: 10, per: hour / 6 }],
  channel: [],
};

/** The Message-ID of the reply to a mail. */
export const replyTo = (mail: string) => externalId(`<re-${mail.replace(/[<>]/g, "")}>`);

/** A platform that answers every question in the same turn of the event loop. */
function platform(): AgentClient {
  let calls = 0;
  const ok = <T>(value: T): CallResult<T> => ({ kind: "ok", value });
  const answer: Pick<AgentClient, "start" | "ask" | "reserve"> = {
    reserve: () => () => undefined,
    async start(_, call: EffectOptions): Promise<CallResult<StartedConversation>> {
      await call.crossing();
      return ok({ conversationId: `conv${++calls}` });
    },
    async ask(_conversation, _question, call: EffectOptions): Promise<CallResult<Answer>> {
      await call.crossing();
      const id = ++calls;
      return ok({
        questionId: `q${id}`,
        replyId: `p${id}`,
        text: "Your order left our warehouse yesterday.",
      });
    },
  };
  return answer as AgentClient;
}

/** A store with its scheduler. */
export interface StageRun {
  /** Accepts the mails in one transaction. Resolves when each reply was sent. Default meter: `microseconds`. */
  pass(mails: readonly MessageEvent[], meter?: Meter): Promise<StepUse>;
  close(): Promise<void>;
}

/** Runs the stages of the email pipeline on channel `c` of that store. `concurrency`: conversations at a time. */
export function runStages(db: Database, concurrency: number): StageRun {
  if (!isMeasuring) measureStatements();
  isMeasuring = true;
  const on = { use: noUse(), meter: microseconds };
  /** Runs `work` with its statements counted for `step`. */
  const within = <T>(step: Step, work: () => T): T => current.run({ step, on }, work);
  const during = (step: Step): Database => ({
    ...db,
    tx: (work, options) => db.tx((q) => within(step, () => work(q)), options),
  });
  let awaited = 0;
  let done: () => void = () => undefined;
  let failed: (error: unknown) => void = () => undefined;
  const outbound: Outbound = {
    compose: (reply) => [{ text: reply.text, answers: reply.answers }],
    send: async (body, attempt) => {
      await attempt.crossing();
      return { kind: "sent", id: replyTo(String((body as { readonly answers: unknown }).answers)) };
    },
  };
  const line = {
    ...lineOf({ outbound, rules: { concurrency, caps } }),
    client: platform(),
  };
  const lines = new Map([["c", line]]);
  // A stage that fails is retried forever, and no reply would be sent.
  const log = { ...listen().log, error: (fields: object, text: string) => failed(new Error(text, { cause: fields })) };
  const deps = {
    lines: () => lines,
    sessions: new CallSessions(standardTiming.calls),
    clock,
    log,
    node: "n",
    timing: standardTiming,
  };
  const timeout = 5000;
  const rate = reserveOf(db, clock, rateOf(1_000_000, 1000, standardTiming.rate));
  const transactional = (step: Step, stage: TransactionalStage): TransactionalStage => ({
    ...stage,
    run: (q, channels) => within(step, () => stage.run(q, channels)),
  });
  const effect = (step: Step, stage: Stage): Stage => ({
    ...stage,
    claim: async (q, channel, most) => {
      const { claimed, room } = await within(step, () => stage.claim(q, channel, most));
      const pieces = claimed.map((piece) => ({
        ...piece,
        work: async (signal: AbortSignal) => {
          const transition = await piece.work(signal);
          return async (q: Query) => {
            await within(step, () => transition(q));
            if (step === "send") q.onDisk(() => --awaited === 0 && done());
          };
        },
      }));
      return { claimed: pieces, room };
    },
  });
  const scheduler: Scheduler = new Scheduler({
    db: during("accept"),
    node: "n",
    clock,
    log,
    timing: standardTiming,
    transactional: [
      transactional("route", routeStage({ ...deps, cancel: (key) => scheduler.cancel(key) })),
      composeStage(deps),
    ],
    stages: [
      effect("ask", askStage({ ...deps, db: during("ask"), rate, timeout, absentAfter: 10_000 })),
      effect("send", sendStage({ ...deps, db: during("send") })),
    ],
    capacity: () => concurrency,
  });
  return {
    async pass(mails, meter = microseconds) {
      Object.assign(on, { use: noUse(), meter });
      awaited = mails.length;
      const sent = Promise.withResolvers<void>();
      done = sent.resolve;
      failed = sent.reject;
      await within("accept", () => accept(scheduler, "c", mails, null, "n"));
      await sent.promise;
      return on.use;
    },
    async close() {
      await scheduler.drain(1000);
      await db.close();
    },
  };
}
