// A real store for the pipeline's stages, in which every change of a state is written down and held against states.ts.

import { type Clock, channelId, type DeliveryEvent, type Log, type Outbound } from "bridgehead/contract";
import { expect, onTestFinished } from "vitest";
import type { AgentClient, AgentSettings } from "../../../src/agent/calls.ts";
import { machines } from "../../../src/domain/states.ts";
import { RateReserve } from "../../../src/engine/rate-reserve.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRules, ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { type Rate, rateOf } from "../../../src/store/rates.ts";
import type { EventRow } from "../../../src/store/tables/events.ts";
import { fresh, type NewPlace, sqlitePlace } from "../store/databases.ts";

/** A store whose transitions are checked when the test ends. SQLite: its triggers are short. */
export async function watched(place: NewPlace = sqlitePlace): Promise<Database> {
  const db = await fresh(place);
  await db.tx(async (q) => {
    await q.run("CREATE TABLE moves (what TEXT, before TEXT, after TEXT)");
    for (const table of Object.keys(machines)) {
      await q.run(
        `CREATE TRIGGER watch_${table} AFTER UPDATE OF state ON ${table} WHEN OLD.state <> NEW.state
         BEGIN INSERT INTO moves VALUES ('${table}', OLD.state, NEW.state); END`,
      );
    }
  });
  onTestFinished(async () => expect(await forbidden(db)).toEqual([]));
  return db;
}

/** Moves that states.ts does not know. */
async function forbidden(db: Database): Promise<string[]> {
  const moves = await db.read((q) =>
    q.all<{ what: keyof typeof machines; before: string; after: string }>(
      "SELECT DISTINCT what, before, after FROM moves",
    ),
  );
  return moves
    .filter(
      ({ what, before, after }) =>
        !(machines[what] as Record<string, readonly string[]>)[before]?.includes(after),
    )
    .map(({ what, before, after }) => `${what}: ${before} -> ${after}`);
}

/** Puts a row into a state to begin with, without that being a move. */
export async function put(q: Query, table: keyof typeof machines, id: string, set: string): Promise<void> {
  await q.run(`UPDATE ${table} SET ${set} WHERE id = $1`, id);
  await q.run("DELETE FROM moves");
}

export const clock: Clock = systemClock;

/** The platform's rate limit as a node has it; generous unless `rate` is given. */
export const reserveOf = (
  db: Database,
  time: Clock,
  rate: Pick<Rate, "interval" | "tolerance"> = rateOf(100_000, 60_000),
): RateReserve =>
  new RateReserve({
    db,
    clock: time,
    log: listen().log,
    name: "platform",
    rate: { ...rateOf(100_000, 60_000), ...rate },
    timing: standardTiming,
  });

export interface Heard {
  readonly log: Log;
  readonly lines: string[];
}

/** A log that keeps its texts. */
export function listen(): Heard {
  const lines: string[] = [];
  const hear = (_: unknown, text: string) => void lines.push(text);
  return { lines, log: { debug: () => undefined, info: hear, warn: hear, error: hear } };
}

const rules: ChannelRules = {
  max_age: 3_600_000,
  allow: [],
  deny: [],
  opening: "start",
  caps: { sender: [], conversation: [], channel: [] },
  on_unknown: "hold",
  unknown_window: 60_000,
  on_permanent_failure: "continue",
  on_new_message: "send",
  debounce: 0,
  concurrency: 10,
};

export const activeSettings = (over: { delay?: number } = {}): AgentSettings => ({
  agentId: "a",
  organizationId: "o",
  name: "agent",
  status: "active",
  email: {
    status: "active",
    responseDelaySeconds: over.delay ?? 0,
    signature: "-- us",
    senderName: "Us",
    defaultSubject: "Your message",
    introduction: "Hello!",
    address: null,
  },
  sms: null,
  voice: null,
});

/** Channel `c` with an outbound that is given, or none. */
export function lineOf(
  over: { rules?: Partial<ChannelRules>; outbound?: Outbound; settings?: AgentSettings } = {},
): ChannelRuntime {
  return {
    channel: channelId("c"),
    agent: "agent",
    traits: {
      attachments: false,
      conversations: "thread",
      platform: "email",
    },
    rules: { ...rules, ...over.rules },
    outbound: over.outbound ?? null,
    open: null,
    client: {} as AgentClient, // no test of this folder asks
    address: (text) => text,
    escalation: () => null,
    settings: () => over.settings ?? activeSettings(),
    catchingUp: () => false,
    problem: () => null,
    report: () => undefined,
  };
}

export const receipt = (over: Partial<DeliveryEvent>): DeliveryEvent =>
  ({ kind: "delivery", id: "receipt", about: {}, state: "delivered", ...over }) as DeliveryEvent;

/** A stored message event. */
export const eventRow = (over: Partial<EventRow> = {}): EventRow => ({
  id: 1,
  channel: "c",
  kind: "message",
  state: "stored",
  code: null,
  reason: null,
  body: "",
  attempts: 0,
  received_at: 1,
  preferred: 0,
  queue: null,
  ...over,
});
