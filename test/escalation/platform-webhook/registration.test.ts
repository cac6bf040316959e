import { describe, expect, it, onTestFinished } from "vitest";
import { createAgentClient } from "../../../src/agent/index.ts";
import type { Policy } from "../../../src/domain/policy.ts";
import { WebhookRegistrations } from "../../../src/escalation/platform-webhook/registration.ts";
import { beginRegistration, signingSecretsOf } from "../../../src/escalation/platform-webhook/rows.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { Database } from "../../../src/store/driver.ts";
import { agentRecord } from "../../support/client/client.ts";
import { eventually } from "../../support/clock.ts";
import { chiefPolicy, key } from "../../support/escalation/policy.ts";
import { entityNotFound, type Fault, json, reset, startFaultServer, status } from "../../support/machine/network.ts";
import { testClock } from "../../support/pipeline/pipeline.ts";
import { listen, reserveOf } from "../../support/pipeline/stage.ts";
import { fresh, sqliteDatabase } from "../../support/store/databases.ts";

interface Hook {
  readonly id: string;
  readonly url: string;
  readonly triggerCondition: string;
  readonly headers: unknown;
}

/** A platform of one agent that remembers its webhooks. */
async function startPlatform() {
  const server = await startFaultServer();
  onTestFinished(() => server.close());
  const hooks: Hook[] = [];
  const state = {
    /** What registering does instead. */
    fault: null as Fault | null,
    /** Whether what it does instead comes after the webhook was registered. */
    late: false,
    lists: true,
    /** The response to the list when there is none. */
    unlisted: 404,
    deletes: true,
    agentId: "a-1",
  };
  let made = 0;
  const take = (body: string): Hook => {
    const hook = { id: `w-${++made}`, ...(JSON.parse(body) as Omit<Hook, "id">) };
    hooks.push(hook);
    return hook;
  };
  server.script((request, response, socket) => {
    const answer = (fault: Fault) => fault(request, response, socket);
    const { method, path, body } = request;
    if (path.endsWith("/by-api-key")) {
      const webhooks = hooks.map((hook) => ({ ...hook, status: "active", title: "", description: "" }));
      return answer(json(agentRecord([{ systemName: "WEBHOOK", status: "active", webhooks }], { id: state.agentId })));
    }
    if (method === "POST") {
      const { fault } = state;
      if (fault !== null && !state.late) return answer(fault);
      const hook = take(body);
      return answer(fault ?? json({ ...hook, secret: `whsec_${hook.id}` }, 201));
    }
    if (method === "GET" && state.lists) {
      const page = { currentPage: 1, pageSize: 9, totalItems: hooks.length, totalPages: 1 };
      return answer(json({ ...page, hasNextPage: false, hasPreviousPage: false, data: hooks }));
    }
    if (method === "GET") return answer(status(state.unlisted));
    if (method !== "DELETE" || !state.deletes) return answer(status(404));
    const at = hooks.findIndex(({ id }) => path.endsWith(`/${id}`));
    if (at < 0) return answer(entityNotFound);
    hooks.splice(at, 1);
    response.writeHead(204).end();
  });
  const asked = (method: string) => server.received.filter((one) => one.method === method).length;
  return { url: server.url, hooks, state, asked, received: server.received };
}

type Platform = Awaited<ReturnType<typeof startPlatform>>;
const hook = chiefPolicy().platformWebhook;
const publicUrl = "https://bridge.example.com";
const ours = `${publicUrl}/platform/agent/message`;

interface Given {
  policy?: Policy | null;
  publicUrl?: string | undefined;
  /** Null: its settings were never read. */
  agentId?: string | null;
  db?: Database;
}

/** The bridge's side, running until the test ends or it is stopped. */
async function bridge(platform: Platform, given: Given = {}) {
  const clock = testClock();
  const { lines, log } = listen();
  const db = given.db ?? (await fresh(() => sqliteDatabase(() => clock.now())));
  const client = createAgentClient({
    url: platform.url,
    agentKey: "k",
    timeoutMs: 60_000,
    clock,
    log,
    timing: standardTiming,
  });
  onTestFinished(() => client.close());
  const now = {
    policy: chiefPolicy() as Policy | null,
    publicUrl: publicUrl as string | undefined,
    agentId: "a-1",
    ...given,
  };
  let rounds = 0;
  const agent = {
    name: "agent",
    client,
    get state() {
      return { settings: now.agentId === null ? null : { agentId: now.agentId }, problem: null };
    },
  };
  const registering = new WebhookRegistrations({
    timing: standardTiming,
    db,
    policy: () => (rounds++, now.policy),
    agents: () => [agent],
    publicUrl: () => now.publicUrl,
    rate: reserveOf(db, clock),
    clock,
    log,
  });
  const life = new AbortController();
  const ended = registering.run(life.signal);
  const stop = async () => {
    life.abort();
    await ended;
  };
  onTestFinished(stop);
  return {
    db,
    clock,
    now,
    lines,
    stop,
    /** A whole round that began after this call. */
    async round() {
      for (const _ of [1, 2]) {
        const before = rounds;
        registering.wake();
        await eventually(() => expect(rounds).toBeGreaterThan(before));
      }
    },
    registrations: () =>
      db.read((q) =>
        q.all<{ url: string; platform_id: string | null }>("SELECT url, platform_id FROM webhook_registrations"),
      ),
  };
}

it("asks for one webhook, with the key in its header, and never again", async () => {
  const platform = await startPlatform();
  const first = await bridge(platform);
  await first.round();
  expect(platform.hooks).toEqual([
    expect.objectContaining({
      url: ours,
      triggerCondition: "each_message",
      headers: { "X-Bridgehead-Key": key },
    }),
  ]);
  expect(await first.registrations()).toEqual([{ url: ours, platform_id: "w-1" }]);
  expect(await first.db.read((q) => signingSecretsOf(q, "agent"))).toEqual(["whsec_w-1"]);
  await first.round();
  await first.stop();
  const second = await bridge(platform, { db: first.db });
  second.clock.forward(7_200_000);
  await second.round();
  expect(platform.asked("POST")).toBe(1);
});

it("asks for nothing without a policy that says so, a public address, or an agent that was read", async () => {
  const platform = await startPlatform();
  const without: Given[] = [
    { policy: null },
    { policy: chiefPolicy({ platformWebhook: null }) },
    { policy: chiefPolicy({ platformWebhook: hook && { ...hook, register: false } }) },
    { publicUrl: undefined },
    { agentId: null },
  ];
  for (const given of without) await (await bridge(platform, given)).round();
  expect(platform.received).toEqual([]);
});

it("asks as soon as the agent was read", async () => {
  const platform = await startPlatform();
  const one = await bridge(platform, { agentId: null });
  await one.round();
  one.now.agentId = "a-1";
  await eventually(() => {
    one.clock.forward(1000);
    expect(platform.hooks).toHaveLength(1);
  });
});

describe("an unknown outcome", () => {
  for (const lists of [true, false]) {
    it(`is looked up ${lists ? "in the list" : "in the agent's skill"}, and what is there is not asked for again`, async () => {
      const platform = await startPlatform();
      Object.assign(platform.state, { fault: reset, late: true, lists });
      const one = await bridge(platform);
      await one.round();
      expect(await one.registrations()).toEqual([{ url: ours, platform_id: null }]);
      platform.state.fault = null;
      await one.round();
      expect(await one.registrations(), "it may still be under way").toEqual([{ url: ours, platform_id: null }]);
      one.clock.forward(60_000);
      await one.round();
      expect(await one.registrations()).toEqual([{ url: ours, platform_id: lists ? "w-1" : "" }]);
      expect(platform.asked("POST")).toBe(1);
    });
  }

  it("is asked for again when it is not there", async () => {
    const platform = await startPlatform();
    platform.state.fault = reset;
    const one = await bridge(platform);
    await one.round();
    platform.state.fault = null;
    one.clock.forward(60_000);
    await one.round();
    expect(platform.hooks).toHaveLength(1);
    expect(await one.registrations()).toEqual([{ url: ours, platform_id: "w-1" }]);
  });

  it("is what a call is that the process died in", async () => {
    const platform = await startPlatform();
    const one = await bridge(platform);
    await one.round();
    await one.stop();
    await one.db.tx((q) => q.run("UPDATE webhook_registrations SET platform_id = NULL, secret = NULL"));
    const next = await bridge(platform, { db: one.db });
    one.clock.forward(60_000);
    await next.round();
    expect(await next.registrations()).toEqual([{ url: ours, platform_id: "w-1" }]);
    expect(platform.asked("POST")).toBe(1);
  });
});

it("does not request a webhook that exists, even if created manually", async () => {
  const platform = await startPlatform();
  platform.hooks.push({ id: "by-hand", url: ours, triggerCondition: "each_message", headers: {} });
  const one = await bridge(platform);
  await one.round();
  expect(await one.registrations()).toEqual([{ url: ours, platform_id: "by-hand" }]);
  expect(platform.asked("POST")).toBe(0);
});

it.each([400, 403, 404, 405])("asks at a platform that answers %i to the list", async (unlisted) => {
  const platform = await startPlatform();
  Object.assign(platform.state, { lists: false, unlisted });
  const one = await bridge(platform);
  await one.round();
  expect(await one.registrations()).toEqual([{ url: ours, platform_id: "w-1" }]);
});

it("says that it failed, and asks again", async () => {
  const platform = await startPlatform();
  // Asks for nothing: what it had under way when it was stopped could arrive later.
  const one = await bridge(platform, { policy: null });
  for (const fault of [status(400), status(403), status(429, { "retry-after": "1" }), status(409)]) {
    await one.stop();
    await one.db.tx((q) => q.run("DELETE FROM webhook_registrations"));
    platform.hooks.length = 0;
    platform.state.fault = fault;
    const next = await bridge(platform, { db: one.db });
    await next.round();
    // While it asks once more, that is noted.
    await eventually(async () => expect(await next.registrations()).toEqual([]));
    expect(next.lines).toContain("platform webhook registration failed");
    platform.state.fault = null;
    await next.stop();
    // A penalty of the platform's is everybody's.
    await one.db.tx((q) => q.run("DELETE FROM rates"));
    const last = await bridge(platform, { db: one.db });
    await last.round();
    expect(platform.hooks).toHaveLength(1);
    await last.stop();
  }
});

it("retries after a while", async () => {
  const platform = await startPlatform();
  platform.state.fault = status(400);
  const one = await bridge(platform);
  await eventually(() => expect(platform.asked("POST")).toBe(1));
  platform.state.fault = null;
  await eventually(() => {
    one.clock.forward(60_000);
    expect(platform.hooks).toHaveLength(1);
  });
});

describe("another address, key or agent", () => {
  const changes: [string, (one: Awaited<ReturnType<typeof bridge>>) => void][] = [
    ["address", ({ now }) => void (now.publicUrl = "https://new.example.com/")],
    [
      "key",
      ({ now }) => void (now.policy = chiefPolicy({ platformWebhook: hook && { ...hook, key: "another-key-of-16" } })),
    ],
    ["agent", ({ now }) => void (now.agentId = "a-2")],
  ];
  for (const [what, change] of changes) {
    it(`${what}: the old webhook goes, a new one comes`, async () => {
      const platform = await startPlatform();
      const one = await bridge(platform);
      await one.round();
      change(one);
      await one.round();
      await one.round();
      expect(platform.hooks.map(({ id }) => id)).toEqual(["w-2"]);
      expect(await one.registrations()).toMatchObject([{ platform_id: "w-2" }]);
      expect(platform.hooks[0]?.url).toBe(what === "address" ? "https://new.example.com/platform/agent/message" : ours);
    });
  }

  it("is reported where the platform removes nothing: never two for one address", async () => {
    const platform = await startPlatform();
    platform.state.deletes = false;
    const one = await bridge(platform);
    await one.round();
    changes[1]?.[1](one);
    await one.round();
    expect(platform.asked("POST")).toBe(1);
    expect(one.lines).toContain("outdated platform webhook not removed");
  });
});

it("is asked for once by two nodes", async () => {
  const platform = await startPlatform();
  const one = await bridge(platform);
  const two = await bridge(platform, { db: one.db });
  await Promise.all([one.round(), two.round()]);
  expect(platform.asked("POST")).toBe(1);
});

it("is left to the node that has noted it first", async () => {
  const platform = await startPlatform();
  const one = await bridge(platform, { agentId: null });
  const noted = await one.db.tx((q) =>
    beginRegistration(q, { agent: "agent", trigger: "each_message", url: ours, digest: "another" }),
  );
  expect(noted).toBe(true);
  one.now.agentId = "a-1";
  await one.round();
  expect(platform.asked("POST")).toBe(0);
});
