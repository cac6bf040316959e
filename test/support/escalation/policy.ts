// Policies, what the store has of escalations, and the listener with what responders and the platform reach of them.

import { createHmac } from "node:crypto";
import { type Clock, channelId } from "bridgehead/contract";
import { onTestFinished } from "vitest";
import { causes, type Person, type Policy } from "../../../src/domain/policy.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import { hashOf } from "../../../src/escalation/link/page.ts";
import { linkHandler } from "../../../src/escalation/link/stage.ts";
import {
  platformWebhookHandler,
  platformWebhookStage,
} from "../../../src/escalation/platform-webhook/stage.ts";
import { EscalationHandler } from "../../../src/escalation/trigger/stage.ts";
import { startListener } from "../../../src/http/listener.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import type { EscalationHooks } from "../../../src/pipeline/escalation.ts";
import type { Database } from "../../../src/store/driver.ts";
import { bindPlatform } from "../../../src/store/tables/conversations.ts";
import { type EscalationRow, liveEscalation } from "../../../src/store/tables/escalations.ts";
import { addTargets, giveLinks } from "../../../src/store/tables/responders.ts";
import { clock, lineOf, listen } from "../pipeline/stage.ts";
import { addNotification, conversation, fresh, insertEscalation, sqlitePlace } from "../store/databases.ts";

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

// The listener with what an escalation needs of it: the platform's webhooks and people's links, over a real store and scheduler.

const minute = 60_000;
export const key = "a-key-of-32-characters-in-a-row!";
export const signingSecret = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;

/** A policy under which everything is escalated to the chief by mail. */
export function chiefPolicy(over: Partial<Policy> = {}): Policy {
  const chief: Person = {
    id: "chief",
    name: "Cleo Chief",
    email: "chief@people.example",
    sms: null,
    webhook: null,
    timeZone: "UTC",
    hours: [],
    away: [],
  };
  return policyOf({
    responders: new Map([
      ["chief", chief],
      ...["Dora Dahl", "Emil Ek"].map((name): [string, Person] => {
        const id = name.split(" ")[0]?.toLowerCase() ?? "";
        return [id, { ...chief, id, name, email: `${id}@people.example` }];
      }),
    ]),
    fallback: { notify: ["chief"], by: null, repeat: 15 * minute },
    agentRecipients: true,
    causes: ["topic"],
    downAfter: 0,
    poll: minute,
    pollOpen: minute,
    platformWebhook: { header: "X-Bridgehead-Key", key, signingSecrets: [], register: true },
    ...over,
  });
}

export interface FrontDoor {
  readonly url: string;
  readonly db: Database;
  readonly scheduler: Scheduler;
  /** What was logged. */
  readonly logged: readonly { readonly message: string; readonly [field: string]: unknown }[];
  /** Time passes. */
  forward(ms: number): void;
  now(): number;
  /** Posts to /platform/<path> with the right key, or with these headers instead. */
  post(
    path: string,
    body: string | Uint8Array<ArrayBuffer>,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Response>;
  rows<T = { readonly [column: string]: unknown }>(sql: string): Promise<T[]>;
  /** A conversation of ours, bound to that one of the platform. */
  bound(id: string, platformId: string): Promise<void>;
  /** Opens an escalation about a conversation, with a contact that has a link for an hour; the link's token. */
  escalated(conversation: string, token: string, name?: string): Promise<EscalationRow>;
}

export async function openFrontDoor(
  policy: Policy | null = chiefPolicy(),
  faulty: (db: Database) => Database = (db) => db,
): Promise<FrontDoor> {
  let offset = 0;
  const now = () => Date.now() + offset;
  const clock: Clock = {
    now,
    monotonic: () => performance.now() + offset,
    sleep: (ms, signal) => systemClock.sleep(ms, signal),
  };
  const logged: { message: string }[] = [];
  const note = (fields: object, message: string) => void logged.push({ ...fields, message });
  const log = { debug: note, info: note, warn: note, error: note };
  const db = faulty(await fresh(() => sqlitePlace(now)));
  const deps = {
    policy: () => policy,
    lines: () => new Map([["c", lineOf()]]),
    clock,
    log,
    timing: standardTiming,
  };
  const scheduler = new Scheduler({
    db,
    node: "n",
    clock,
    log,
    timing: standardTiming,
    transactional: [platformWebhookStage(deps)],
    stages: [],
    capacity: () => 0,
  });
  const listener = await startListener({
    listen: { host: "127.0.0.1", port: 0 },
    clock,
    log,
    routes: (id) => (id === channelId("c") ? [] : null),
    platform: platformWebhookHandler({ ...deps, isAgent: (name) => name === "agent", db, scheduler }),
    escalations: linkHandler({ ...deps, db, scheduler }),
    ready: async () => ({ ready: true }),
    metrics: async () => ({ contentType: "text/plain", body: "" }),
  });
  onTestFinished(() => listener.close(100));
  return {
    url: listener.url,
    db,
    scheduler,
    logged,
    forward: (ms) => void (offset += ms),
    now,
    post: (path, body, headers = { "x-bridgehead-key": key }) =>
      fetch(`${listener.url}/platform/${path}`, { method: "POST", body, headers }),
    rows: (sql) => db.read((q) => q.all(sql)),
    bound: (id, platformId) =>
      db.tx(async (q) => {
        await conversation(q, id);
        await bindPlatform(q, id, platformId);
      }),
    escalated: (of, token, name = "Dora Dahl") =>
      db.tx(async (q) => {
        const about = `conversation:${of}`;
        const given = { channel: "c", agent: "agent", conversation: of, cause: "topic", topic: "refund" };
        const row =
          (await insertEscalation(q, {
            id: `e-${of}`,
            about,
            ...given,
            reason: "the customer <b>insists</b>",
          })) ?? (await liveEscalation(q, about));
        if (row === null) throw new Error("there is no escalation");
        const id = `contact-${token}`;
        await addTargets(q, [
          {
            id,
            escalation: row.id,
            person: name.split(" ")[0]?.toLowerCase() ?? "",
            name,
            way: "email",
            address: `${token}@people.example`,
            channel: "c",
          },
        ]);
        await giveLinks(q, [{ target: id, link: hashOf(token) }], 60 * minute);
        return row;
      }),
  };
}

/** The headers of Standard Webhooks. */
export function signed(
  body: string,
  { id = "msg_1", at, secret = signingSecret }: { id?: string; at: number; secret?: string },
): Record<string, string> {
  const seconds = String(Math.floor(at / 1000));
  const mac = createHmac("sha256", Buffer.from(secret.slice("whsec_".length), "base64"));
  const signature = mac.update(`${id}.${seconds}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": seconds, "webhook-signature": `v1,${signature}` };
}
