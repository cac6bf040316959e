// What is raised, without anybody being told of it: a policy, and what the store has of escalations.

import { causes, type Policy } from "../../../src/domain/policy.ts";
import { EscalationHandler } from "../../../src/escalation/trigger/stage.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import type { EscalationHooks } from "../../../src/pipeline/escalation.ts";
import type { Database } from "../../../src/store/driver.ts";
import { addTargets } from "../../../src/store/tables/responders.ts";
import { clock, listen } from "../pipeline/stage.ts";
import { addNotification } from "../store/rows.ts";

/** One person, who is told by mail over channel `c`. */
export const policyOf = (over: Partial<Policy> = {}): Policy => ({
  responders: new Map(),
  tiers: [],
  routes: [],
  fallback: { notify: [], by: null, repeat: 0 },
  agentRecipients: false,
  group: 0,
  link: { expires: 3_600_000, actions: ["ack", "reply", "note", "resume", "close"], addresses: "full" },
  causes,
  downAfter: 600_000,
  poll: 300_000,
  pollOpen: 20_000,
  via: { email: "c", sms: null },
  platformWebhook: null,
  allowPrivate: [],
  ...over,
});

/** Makes lines raise. */
export function raising(over: Partial<Policy> = {}): (line: ChannelRuntime) => ChannelRuntime {
  const lines = new Map<string, ChannelRuntime>();
  const { log } = listen();
  const policy = policyOf(over);
  const escalation: EscalationHooks = new EscalationHandler({
    policy: () => policy,
    lines: () => lines,
    clock,
    log,
    timing: standardTiming,
  });
  return (line) => {
    const raised = { ...line, escalation: () => escalation };
    lines.set(line.channel, raised);
    return raised;
  };
}

export interface Raised {
  readonly id: string;
  readonly about: string;
  readonly state: string;
  readonly cause: string;
  readonly reason: string;
  readonly due_at: number | null;
}

export const escalationsIn = (db: Database): Promise<Raised[]> =>
  db.read((q) => q.all("SELECT id, about, state, cause, reason, due_at FROM escalations ORDER BY number"));

/** Why, in the order in which it was noticed. */
export const sourcesIn = async (db: Database): Promise<string[]> =>
  (
    await db.read((q) => q.all<{ detail: string }>("SELECT detail FROM triggers ORDER BY recorded_at, key"))
  ).map(({ detail }) => detail);

/** Somebody was told of it: the contact's id. */
export async function told(db: Database, escalation: string, id = `to-${escalation}`): Promise<string> {
  await db.tx(async (q) => {
    await addTargets(q, [
      {
        id,
        escalation,
        person: "dora",
        name: "Dora",
        way: "email",
        address: `${id}@people.example`,
        channel: "c",
      },
    ]);
    await addNotification(q, { id: `n-${id}`, target: id, kind: "opened", subject: "", text: null }, 0);
  });
  return id;
}

/** Kind and text of what is to be said to people: the telling first. */
export const noticesIn = (db: Database): Promise<{ kind: string; text: string | null }[]> =>
  db.read((q) => q.all("SELECT kind, text FROM notifications ORDER BY kind DESC, id"));
