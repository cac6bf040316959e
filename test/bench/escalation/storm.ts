// Every customer's conversation escalates and no responder acknowledges: the daemon's stages on a store of their own, with
// a clock that is set forward. The platform and the responders' channels answer at once.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { channelId, externalId, type MessageEvent, type Outbound } from "bridgehead/contract";
import type { AgentClient } from "../../../src/agent/calls.ts";
import { CallSessions } from "../../../src/calls/sessions.ts";
import type { Policy } from "../../../src/domain/policy.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import { notifyStage } from "../../../src/escalation/notify/stage.ts";
import { pollStage } from "../../../src/escalation/poll/stage.ts";
import { EscalationHandler } from "../../../src/escalation/trigger/stage.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { accept } from "../../../src/pipeline/accept/stage.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { composeStage } from "../../../src/pipeline/compose/stage.ts";
import { routeStage } from "../../../src/pipeline/route/stage.ts";
import { sendStage } from "../../../src/pipeline/send/stage.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { RateReserve, rateOf } from "../../../src/store/rates.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { bindPlatform, insertConversation } from "../../../src/store/tables/conversations.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { lineOf, policyOf, responder } from "../../support/rows.ts";

export interface Storm {
  readonly db: Database;
  readonly scheduler: Scheduler;
  readonly policy: Policy;
  /** Statements that were run so far. */
  statements(): number;
  /** Opens one escalation for each customer, each in its own transaction, all in parallel. */
  raise(): Promise<void>;
  forward(ms: number): void;
  /** Works until nothing is due and nothing is under way. */
  settle(): Promise<void>;
  /** The notified responder texts that. */
  says(text: string): Promise<void>;
  /** Every conversation is looked at. */
  look(): Promise<void>;
  counts(): Promise<{ readonly open: number; readonly taken: number; readonly looked: number }>;
  close(): Promise<void>;
}

export const groupMs = 60_000;
export const repeatMs = 600_000;
const beside = 64;
const number = "+12025550191";

export async function startStorm(customers: number): Promise<Storm> {
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-"));
  let ahead = 0;
  let statements = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const db = counted(
    openSqlite(join(directory, "bench.db"), () => clock.now()),
    () => (statements += 1),
  );
  await migrate(db);
  const policy = { ...basis, responders: new Map([["dora", dora]]) };
  const lines = new Map<string, ChannelRuntime>();
  const core = {
    db,
    clock,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    node: "bench",
    timing: standardTiming,
  };
  const sessions = new CallSessions(standardTiming.calls);
  const deps = { ...core, policy: () => policy, lines: () => lines, sessions };
  const escalation = new EscalationHandler(deps);
  for (const channel of ["customers", "pager"])
    lines.set(channel, { ...lineTo(channel), escalation: () => escalation });
  const rate = new RateReserve({ ...core, name: "platform", rate: rateOf(1_000_000, 1000, standardTiming.rate) });
  const scheduler: Scheduler = new Scheduler({
    ...core,
    transactional: [
      routeStage({ ...deps, cancel: () => {} }),
      notifyStage({ ...deps, link: () => null }),
      composeStage(deps),
    ],
    stages: [sendStage(deps), pollStage({ ...deps, rate })],
    capacity: () => 8,
  });
  const conversations = await db.tx(async (q) => {
    for (const channel of lines.keys()) await ensureChannel(q, channel);
    const all: string[] = [];
    for (let n = 0; n < customers; n += 1) all.push(await customer(q, n));
    return all;
  });
  let said = 0;

  async function settle(): Promise<void> {
    for (;;) {
      await scheduler.sweep();
      while (scheduler.running() > 0) await new Promise<void>((resolve) => setImmediate(resolve));
      if ((await db.read((q) => q.one(dueSql))) === undefined) return;
    }
  }

  /** A conversation that the platform has given to a human long ago. */
  async function customer(q: Query, n: number): Promise<string> {
    const person = `+1303${String(n).padStart(7, "0")}`;
    const id = `k-${n}`;
    const whom = { channel: "customers", agent: "agent", person, person_name: null, subject: null };
    await insertConversation(q, { id, ...whom, token: id });
    await bindPlatform(q, id, `p-${n}`);
    await q.run("INSERT INTO polls (conversation, channel, mode) VALUES ($1, 'customers', 'manual')", id);
    return id;
  }

  return {
    db,
    scheduler,
    policy,
    statements: () => statements,
    async raise() {
      const left = conversations.values();
      const one = async () => {
        for (const conversation of left)
          await scheduler.commit((q) =>
            escalation.open(q, {
              key: `silent:${conversation}`,
              source: "ours",
              cause: "silent",
              channel: "customers",
              agent: "agent",
              conversation,
              topic: null,
              reason: "the platform took a message and gives no answer",
            }),
          );
      };
      await Promise.all(Array.from({ length: beside }, one));
    },
    forward: (ms) => void (ahead += ms),
    settle,
    async says(text) {
      said += 1;
      await accept(scheduler, "pager", [message(`said-${said}`, text)], null, "bench");
      await settle();
    },
    async look() {
      await db.tx((q) => q.run("UPDATE polls SET due_at = now_ms(), mark = NULL"));
      await settle();
    },
    async counts() {
      const [row] = await db.read((q) =>
        q.all<{ open: number; taken: number; looked: number }>(
          `SELECT (SELECT COUNT(*) FROM escalations WHERE state = 'open') AS open,
             (SELECT COUNT(*) FROM escalations WHERE state = 'acknowledged') AS taken,
             (SELECT COUNT(*) FROM polls WHERE mark IS NOT NULL) AS looked`,
        ),
      );
      if (!row) throw new Error("counting found nothing");
      return row;
    },
    async close() {
      await scheduler.drain(0);
      await db.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

const dueSql = `SELECT 1 AS due FROM events WHERE state = 'stored' UNION ALL SELECT 1 FROM replies WHERE state = 'ready'
  UNION ALL SELECT 1 FROM drafts WHERE open = 1 AND due_at <= now_ms()
  UNION ALL SELECT 1 FROM escalations WHERE due_at <= now_ms()
  UNION ALL SELECT 1 FROM notifications WHERE due_at <= now_ms()
  UNION ALL SELECT 1 FROM polls WHERE due_at <= now_ms() AND channel = 'customers' LIMIT 1`;

const dora = responder("dora", { name: "Dora", sms: number });

const basis = policyOf({
  fallback: { notify: ["dora"], by: null, repeat: repeatMs },
  group: groupMs,
  pollOpen: 86_400_000,
  via: { email: null, sms: "pager" },
});

const client: Pick<AgentClient, "mode" | "read"> = {
  mode: async () => ({ kind: "ok", value: "manual" }),
  read: async (id) => ({
    messages: [{ id: `${id}-1`, role: "person", text: "Where is my order?", answers: null }],
    start: 0,
    end: 1,
    skipped: 0,
    failure: null,
  }),
};

let sent = 0;
const outbound: Outbound = {
  compose: ({ text }) => [{ text }],
  send: async (_, attempt) => {
    await attempt.crossing();
    sent += 1;
    return { kind: "sent", id: externalId(`sent-${sent}`) };
  },
};

const lineTo = (channel: string): ChannelRuntime => ({
  ...lineOf({ outbound, rules: { concurrency: 8 } }),
  channel: channelId(channel),
  traits: { attachments: false, conversations: "person", platform: "sms" },
  client: client as AgentClient,
  settings: () => null,
});

const message = (id: string, text: string): MessageEvent => ({
  kind: "message",
  id: externalId(id),
  from: { address: number },
  to: [{ address: "+12025550100" }],
  thread: { answers: [] },
  sentAt: new Date(),
  sender: "verified",
  text,
});

/** Counts what is asked of it. */
function counted(db: Database, count: () => void): Database {
  const counting = (q: Query): Query =>
    new Proxy(q, {
      get(target, name) {
        if (name === "all" || name === "one" || name === "run") count();
        return Reflect.get(target, name) as unknown;
      },
    });
  return {
    ...db,
    tx: (work, options) => db.tx((q) => work(counting(q)), options),
    read: (work) => db.read((q) => work(counting(q))),
  };
}
