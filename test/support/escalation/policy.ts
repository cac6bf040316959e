// Policies, what the store has of escalations, the listener with what responders and the platform reach of them, and
// receivers of webhooks.

import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import {
  type Adapter,
  type Attempt,
  type Clock,
  channelId,
  type Json,
  type Reply,
  type SendOutcome,
  sendKey,
  threadToken,
} from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import { onTestFinished } from "vitest";
import type { AgentSettings, EscalationSettings } from "../../../src/agent/calls.ts";
import type { Person, Policy } from "../../../src/domain/policy.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import { hashOf } from "../../../src/escalation/link/page.ts";
import { linkHandler } from "../../../src/escalation/link/stage.ts";
import { platformWebhookHandler, platformWebhookStage } from "../../../src/escalation/platform-webhook/stage.ts";
import { EscalationHandler } from "../../../src/escalation/trigger/stage.ts";
import { type WebhookDeps, webhookAdapter } from "../../../src/escalation/webhook/adapter.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming, type TimingOverrides, timingWith } from "../../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import type { EscalationHooks } from "../../../src/pipeline/escalation.ts";
import type { Database } from "../../../src/store/driver.ts";
import { bindPlatform } from "../../../src/store/tables/conversations.ts";
import { type EscalationRow, liveEscalation } from "../../../src/store/tables/escalations.ts";
import { addTargets, giveLinks } from "../../../src/store/tables/responders.ts";
import { startTestListener } from "../http/listener.ts";
import { certificate } from "../machine/network.ts";
import { clock, listen } from "../pipeline/stage.ts";
import { lineOf, policyOf, replyOf } from "../rows.ts";
import { addNotification, conversation, fresh, insertEscalation, sqliteDatabase } from "../store/databases.ts";

export { policyOf } from "../rows.ts";

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

/** The details of all triggers, in the order in which they were recorded. */
export const sourcesIn = async (db: Database): Promise<string[]> =>
  (await db.read((q) => q.all<{ detail: string }>("SELECT detail FROM triggers ORDER BY recorded_at, key"))).map(
    ({ detail }) => detail,
  );

/** Adds a notification of an escalation to a new target. Returns the id of the target. */
export async function notifies(db: Database, escalation: string, id = `to-${escalation}`): Promise<string> {
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

/** Kind and text of the replies for people: the notification first. */
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
    platformWebhook: { header: "X-Bridgehead-Key", key, formerKeys: [], signingSecrets: [], register: true },
    ...over,
  });
}

export interface WebhookFixture {
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
  /** A conversation of the store, bound to that one of the platform. */
  bound(id: string, platformId: string): Promise<void>;
  /** Opens an escalation about a conversation, with a contact that has a link for an hour; the link's token. */
  escalated(conversation: string, token: string, name?: string): Promise<EscalationRow>;
}

export async function openPlatformWebhooks(
  policy: Policy | null = chiefPolicy(),
  faulty: (db: Database) => Database = (db) => db,
): Promise<WebhookFixture> {
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
  const db = faulty(await fresh(() => sqliteDatabase(now)));
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
  const listener = await startTestListener({
    clock,
    log,
    routes: (id) => (id === channelId("c") ? [] : null),
    platform: platformWebhookHandler({ ...deps, isAgent: (name) => name === "agent", db, scheduler }),
    escalations: linkHandler({ ...deps, db, scheduler }),
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

// A receiver of webhooks on a real socket, and the adapter with people behind it.

export interface Delivered {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export type Answering = (response: ServerResponse, got: Delivered) => void;

export interface Receiver {
  /** Resets all its connections. */
  reset(): Promise<void>;
  readonly port: number;
  readonly url: string;
  readonly got: readonly Delivered[];
  /** How it answers from now on; 204 at first. */
  answer(next: Answering): void;
  close(): Promise<void>;
}

export const status =
  (code: number, headers: Readonly<Record<string, string>> = {}): Answering =>
  (response) =>
    void response.writeHead(code, headers).end();

export const json =
  (value: unknown, code = 200, type = "application/json"): Answering =>
  (response) =>
    void response.writeHead(code, { "content-type": type }).end(JSON.stringify(value));

export async function startReceiver(
  options: { readonly secure?: boolean; readonly host?: string; readonly port?: number } = {},
): Promise<Receiver> {
  const { secure = false, host = "127.0.0.1", port = 0 } = options;
  const got: Delivered[] = [];
  let answering = status(204);
  const take: RequestListener = (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const one = { method, path: url, headers, text: Buffer.concat(parts).toString("utf8") };
      got.push(one);
      answering(response, one);
    });
  };
  const server = secure ? createSecureServer(certificate(), take) : createServer(take);
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  await new Promise<void>((done, failed) => server.once("error", failed).listen(port, host, done));
  const bound = (server.address() as AddressInfo).port;
  return {
    port: bound,
    url: `${secure ? "https" : "http"}://${host}:${bound}/hook`,
    got,
    answer: (next) => void (answering = next),
    async reset() {
      const closed = [...sockets].map((socket) => new Promise((done) => socket.once("close", done)));
      for (const socket of sockets) socket.resetAndDestroy();
      await Promise.all(closed);
    },
    close: () => closed(server, sockets),
  };
}

/** Those that never spoke, too: the server knows nothing of them. */
async function closed(server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  for (const socket of sockets) socket.destroy();
  await new Promise((done) => server.close(done));
}

/** Of an escalation, as the payload has it. */
export const bodyOf = (type: string, more: object = {}): string =>
  JSON.stringify({ type, timestamp: "2026-07-08T08:00:00.000Z", data: { escalation: 7, ...more } });

export const opened = bodyOf("escalation.opened");

const noticeTo = (url: string, text: string, key = "k0000000000000000001"): Reply =>
  replyOf({
    kind: "notice",
    key: sendKey(key),
    to: [{ address: url, name: "Dora" }],
    text,
    token: threadToken("t0000000000000000001"),
  });

export const personAt = (url: string, over: Partial<NonNullable<Person["webhook"]>> = {}): Person => ({
  id: "dora",
  name: "Dora",
  email: null,
  sms: null,
  webhook: { url, headers: {}, secret: null, ...over },
  timeZone: "UTC",
  hours: [],
  away: [],
});

/** What of a policy webhooks look at. */
export const policyWith = (people: readonly Person[], allowPrivate: readonly string[]): Policy =>
  ({ responders: new Map(people.map((one) => [one.id, one])), allowPrivate }) as Partial<Policy> as Policy;

/** A line of an agent with these recipients; null: its settings were never read. */
export const lineWith = (recipients: EscalationSettings["recipients"] | null): ChannelRuntime =>
  ({
    settings: () =>
      recipients && ({ escalations: [{ topic: "refund", response: "", recipients }] } as unknown as AgentSettings),
  }) as ChannelRuntime;

export interface Bench {
  readonly channel: RecordingChannel;
  readonly adapter: Adapter;
  /** As the core does it: composed, stored, and sent by the attempt of that number. */
  send(text: string, attempt?: Partial<Attempt>): Promise<Sent>;
  drafts(text: string): readonly Json[];
}

export interface Sent {
  /** Or what was thrown. */
  readonly outcome: SendOutcome | Error;
  readonly crossed: boolean;
}

export interface BenchOptions extends Pick<WebhookDeps, "resolve"> {
  readonly timing?: TimingOverrides["webhook"];
  readonly people?: readonly Person[];
  readonly lines?: readonly ChannelRuntime[];
  /** Default: this machine. */
  readonly allow?: readonly string[];
  readonly clock?: Clock;
  /** Default: looked at anew at each delivery, it is `people` and `allow`. */
  readonly policy?: () => Policy | null;
}

export function openBench(url: string, options: BenchOptions = {}): Bench {
  const { people = [personAt(url)], allow = ["127.0.0.1"], lines = [], clock } = options;
  const { resolve, timing: webhook } = options;
  const deps: WebhookDeps = {
    policy: options.policy ?? (() => policyWith(people, allow)),
    lines: () => new Map(lines.map((line, index) => [`line-${index}`, line])),
    ...(resolve && { resolve }),
    timing: timingWith(webhook && { webhook }),
  };
  const channel = recordingChannel({ id: "escalations", ...(clock && { clock }) });
  const adapter: Adapter = webhookAdapter(deps).create(channel, {});
  const outbound = adapter.outbound ?? failed();
  const drafts = (text: string) => JSON.parse(JSON.stringify(outbound.compose(noticeTo(url, text)))) as readonly Json[];
  return {
    channel,
    adapter,
    drafts,
    async send(text, attempt = {}) {
      let crossed = false;
      const [draft = null] = drafts(text);
      const outcome = await outbound
        .send(draft, {
          key: noticeTo(url, text).key,
          number: 1,
          signal: new AbortController().signal,
          read: noFiles,
          ...attempt,
          crossing: async () => {
            await attempt.crossing?.();
            crossed = true;
          },
        })
        .catch((error: unknown) => error as Error);
      return { outcome, crossed };
    },
  };
}

function failed(): never {
  throw new Error("the adapter sends nothing");
}
