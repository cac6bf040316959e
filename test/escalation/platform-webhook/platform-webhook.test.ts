import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { agentRecipients } from "../../../src/escalation/webhook/recipients.ts";
import type { EscalationRow } from "../../../src/store/tables/escalations.ts";
import { chiefPolicy, key, openPlatformWebhooks, signed, signingSecret } from "../../support/escalation/policy.ts";
import { activeSettings, lineOf } from "../../support/pipeline/stage.ts";

const withKey = { "x-bridgehead-key": key };
const hook = chiefPolicy().platformWebhook;
const signing = chiefPolicy({ platformWebhook: hook && { ...hook, signingSecrets: [signingSecret] } });
const escalations =
  "SELECT about, conversation, channel, agent, state, cause, topic, reason FROM escalations ORDER BY number";

describe("who is let in", () => {
  it("no sender without a policy, and none without a key in it", async () => {
    for (const policy of [null, chiefPolicy({ platformWebhook: null })]) {
      const webhooks = await openPlatformWebhooks(policy);
      expect((await webhooks.post("agent/escalation", "{}")).status).toBe(404);
      expect(await webhooks.rows("SELECT id FROM platform_webhooks")).toEqual([]);
    }
  });

  it("a sender with the key, at an agent and a path that exist", async () => {
    const webhooks = await openPlatformWebhooks();
    const cases: [string, Record<string, string>, number][] = [
      ["agent/message", withKey, 200],
      ["agent/escalation", withKey, 200],
      ["agent/escalation", {}, 403],
      ["agent/escalation", { "x-bridgehead-key": "" }, 403],
      ["agent/escalation", { "x-bridgehead-key": `${key}x` }, 403],
      ["agent/escalation", { "x-bridgehead-key": key.slice(1) }, 403],
      ["agent/escalation", { authorization: key }, 403],
      // A request without a key does not learn which agents exist.
      ["stranger/escalation", {}, 403],
      ["stranger/escalation", withKey, 404],
      ["%E0%A4%A/escalation", withKey, 404],
      ["agent/elsewhere", withKey, 404],
      ["agent/escalation/more", withKey, 404],
      ["agent", withKey, 404],
    ];
    for (const [path, headers, status] of cases)
      expect((await webhooks.post(path, "{}", headers)).status, `${path} ${JSON.stringify(headers)}`).toBe(status);
    const get = await fetch(`${webhooks.url}/platform/agent/escalation`, { headers: withKey });
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
    expect(await webhooks.rows("SELECT kind FROM platform_webhooks ORDER BY kind")).toEqual([
      { kind: "escalation" },
      { kind: "message" },
    ]);
    expect(JSON.stringify(webhooks.logged)).not.toContain(key);
  });

  it("a sender with a former key, until it is removed", async () => {
    const former = "the-former-key-of-24-bytes";
    const rotated = (formerKeys: readonly string[]) =>
      openPlatformWebhooks(chiefPolicy({ platformWebhook: hook && { ...hook, formerKeys } }));
    const during = await rotated([former]);
    const withFormer = { "x-bridgehead-key": former };
    for (const headers of [withKey, withFormer])
      expect((await during.post("agent/message", "{}", headers)).status).toBe(200);
    expect((await during.post("agent/message", "{}", { "x-bridgehead-key": "" })).status).toBe(403);
    expect((await (await rotated([])).post("agent/message", "{}", withFormer)).status).toBe(403);
    expect(JSON.stringify(during.logged)).not.toContain(former);
  });

  it("nothing above 1 MiB, announced or not", async () => {
    const webhooks = await openPlatformWebhooks();
    const most = "x".repeat(2 ** 20);
    expect((await webhooks.post("agent/message", most)).status).toBe(200);
    expect((await webhooks.post("agent/message", `${most}x`)).status).toBe(413);
    // Not endless: fetch keeps a copy of all that it sends.
    let left = 64 * 2 ** 20;
    const long = new ReadableStream<Uint8Array>({
      pull(controller) {
        left -= 65_536;
        controller.enqueue(new Uint8Array(65_536));
        if (left === 0) controller.close();
      },
    });
    const answer = await fetch(`${webhooks.url}/platform/agent/message`, {
      method: "POST",
      headers: withKey,
      body: long,
      duplex: "half",
    });
    expect([answer.status, left > 0]).toEqual([413, true]);
    expect(await webhooks.rows("SELECT id FROM platform_webhooks")).toHaveLength(1);
  });

  it("only deliveries with a valid signature when signing secrets are configured", async () => {
    const webhooks = await openPlatformWebhooks(signing);
    const body = '{"conversationId":"p"}';
    const other = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    const right = signed(body, { at: webhooks.now() });
    const minutesOff = (minutes: number) => signed(body, { at: webhooks.now() + minutes * 60_000 });
    const two = `v1a,xyz ${signed(body, { at: webhooks.now(), secret: other })["webhook-signature"]} ${right["webhook-signature"]}`;
    const cases: [Record<string, string>, number][] = [
      [right, 200],
      [{ ...right, "webhook-signature": two }, 200],
      [minutesOff(-4), 200],
      [minutesOff(4), 200],
      [minutesOff(-6), 403],
      [minutesOff(6), 403],
      [signed(`${body} `, { at: webhooks.now() }), 403],
      [signed(body, { at: webhooks.now(), secret: other }), 403],
      [{ ...right, "webhook-id": "msg_2" }, 403],
      [{ ...right, "webhook-timestamp": "soon" }, 403],
      [{ ...right, "webhook-signature": "" }, 403],
      [{ ...right, "webhook-signature": "v1," }, 403],
      [{}, 403],
      [{ "webhook-id": "msg_3" }, 403],
      [{ "webhook-id": right["webhook-id"] ?? "", "webhook-timestamp": right["webhook-timestamp"] ?? "" }, 403],
    ];
    for (const [headers, status] of cases) {
      const answer = await webhooks.post("agent/message", body, { ...withKey, ...headers });
      expect(answer.status, JSON.stringify(headers)).toBe(status);
    }
    const unkeyed = await webhooks.post("agent/message", body, right);
    expect(unkeyed.status, "a signature is no key").toBe(403);
    expect(webhooks.logged.filter(({ reason }) => reason === "it is not signed")).toHaveLength(3);
  });

  it("what the reference implementation has signed, and what a registered webhook's secret has", async () => {
    const webhooks = await openPlatformWebhooks(signing);
    const own = `whsec_${Buffer.alloc(24, 3).toString("base64")}`;
    await webhooks.db.tx((q) =>
      q.run(
        "INSERT INTO webhook_registrations (agent, trigger_name, url, digest, secret, requested_at) VALUES ('agent', 'each_message', 'u', 'd', $1, 0)",
        own,
      ),
    );
    for (const secret of [signingSecret, own]) {
      const at = new Date(webhooks.now());
      const headers = {
        ...withKey,
        "webhook-id": `msg_${secret.length}`,
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": new Webhook(secret).sign(`msg_${secret.length}`, at, "{}"),
      };
      expect((await webhooks.post("agent/message", "{}", headers)).status).toBe(200);
    }
  });
});

describe("what becomes of it", () => {
  it("an escalation about the conversation, in the commit that it is answered for, once however often it comes", async () => {
    const webhooks = await openPlatformWebhooks();
    await webhooks.bound("k", "platform-1");
    const body = JSON.stringify({
      conversationId: "platform-1",
      escalation: { topic: "refund", reason: "wants money" },
    });
    const headers = { ...withKey, "webhook-id": "msg_7" };
    expect((await webhooks.post("agent/escalation", body, headers)).status).toBe(200);
    const [row, ...more] = await webhooks.rows(escalations);
    expect(more).toEqual([]);
    expect(row).toEqual({
      about: "conversation:k",
      conversation: "k",
      channel: "c",
      agent: "agent",
      state: "open",
      cause: "topic",
      topic: "refund",
      reason: "wants money",
    });
    await webhooks.db.tx((q) => q.run("UPDATE escalations SET state = 'closed', closed_at = 1"));
    await Promise.all([1, 2, 3].map(() => webhooks.post("agent/escalation", body, headers)));
    expect(await webhooks.rows("SELECT key, source FROM triggers")).toEqual([
      { key: "webhook:agent:msg_7", source: "webhook" },
    ]);
    expect(await webhooks.rows("SELECT state FROM platform_webhooks")).toEqual([{ state: "done" }]);
    expect(await webhooks.rows("SELECT state FROM escalations")).toEqual([{ state: "closed" }]);
    expect(await webhooks.rows("SELECT conversation FROM polls WHERE due_at <= now_ms()")).toEqual([
      { conversation: "k" },
    ]);
  });

  it("one escalation, even if another trigger opened it", async () => {
    const webhooks = await openPlatformWebhooks();
    await webhooks.bound("k", "platform-1");
    await webhooks.escalated("k", "token");
    await webhooks.post("agent/escalation", '{"conversationId":"platform-1"}');
    await webhooks.post("agent/escalation", '{"conversationId":"platform-1","topic":"other"}');
    expect(await webhooks.rows(escalations)).toHaveLength(1);
    expect(await webhooks.rows("SELECT source FROM triggers")).toEqual([{ source: "webhook" }, { source: "webhook" }]);
  });

  it("the same text without an id is the same delivery for an hour, and a new one after that", async () => {
    const webhooks = await openPlatformWebhooks();
    await webhooks.bound("k", "platform-1");
    const body = "conversation_id=platform-1&topic=refund";
    await webhooks.post("agent/escalation", body);
    await webhooks.db.tx((q) => q.run("UPDATE escalations SET state = 'closed', closed_at = now_ms()"));
    await webhooks.post("agent/escalation", body);
    expect(await webhooks.rows("SELECT key FROM triggers")).toHaveLength(1);
    webhooks.forward(3_600_001);
    await webhooks.post("agent/escalation", body);
    expect(await webhooks.rows("SELECT key FROM triggers")).toHaveLength(2);
    expect(await webhooks.rows("SELECT id FROM platform_webhooks")).toHaveLength(1);
    expect(await webhooks.rows("SELECT topic FROM escalations"), "the person has written nothing since").toHaveLength(
      1,
    );
  });

  it("a look at the conversation, and no more, for a message", async () => {
    const webhooks = await openPlatformWebhooks();
    await webhooks.bound("k", "platform-1");
    await webhooks.post("agent/message", '{"conversationId":"platform-1","message":"secret words"}');
    expect(await webhooks.rows("SELECT conversation FROM polls WHERE due_at <= now_ms()")).toHaveLength(1);
    expect(await webhooks.rows("SELECT state, body FROM platform_webhooks")).toEqual([{ state: "done", body: "" }]);
    expect(await webhooks.rows(escalations)).toEqual([]);
  });

  it("nothing for causes that the policy leaves out", async () => {
    const webhooks = await openPlatformWebhooks(chiefPolicy({ causes: ["held"] }));
    await webhooks.bound("k", "platform-1");
    await webhooks.post("agent/escalation", '{"conversationId":"platform-1"}');
    await webhooks.post("agent/escalation", "{}");
    expect(await webhooks.rows(escalations)).toEqual([]);
    expect(await webhooks.rows("SELECT due_at FROM platform_webhooks WHERE due_at IS NOT NULL")).toEqual([]);
  });

  it("waits for a conversation that is not bound yet", async () => {
    const webhooks = await openPlatformWebhooks();
    const body = '{"data":{"conversation":{"id":"platform-2"}},"topic":"refund"}';
    await webhooks.post("agent/escalation", body);
    for (const passed of [1000, 60_000, 500_000]) {
      webhooks.forward(passed);
      await webhooks.scheduler.sweep();
      expect(await webhooks.rows(escalations)).toEqual([]);
    }
    await webhooks.bound("k", "platform-2");
    webhooks.forward(15_000);
    await webhooks.scheduler.sweep();
    expect(await webhooks.rows(escalations)).toMatchObject([{ about: "conversation:k", topic: "refund" }]);
    expect(await webhooks.rows("SELECT state FROM platform_webhooks")).toEqual([{ state: "done" }]);
  });

  it("is never lost: an unknown conversation becomes an escalation about the agent, with the full text", async () => {
    const webhooks = await openPlatformWebhooks();
    const payload = {
      conversationId: "platform-3",
      topic: "refund",
      reason: "angry",
      user: { firstName: "Nora", lastName: "New", email: "nora@example.org", phoneNumber: "+12025550199" },
      message: "I want\nmy money",
    };
    await webhooks.post("agent/escalation", JSON.stringify(payload));
    webhooks.forward(600_000);
    await webhooks.scheduler.sweep();
    await webhooks.post("agent/escalation", "who is there?");
    expect(await webhooks.rows(escalations)).toEqual([
      {
        about: "agent:agent:platform-3",
        conversation: null,
        channel: "c",
        agent: "agent",
        state: "open",
        cause: "topic",
        topic: "refund",
        reason:
          "the platform has escalated conversation platform-3, which is not known here; reason: angry; person: Nora New, nora@example.org, +12025550199; message: I want my money",
      },
      expect.objectContaining({
        reason:
          "the platform has escalated a conversation it does not name, which is not known here; message: who is there?",
      }),
    ]);
    expect(await webhooks.rows("SELECT state FROM platform_webhooks")).toEqual([{ state: "lost" }, { state: "lost" }]);
  });

  it("forgets a message in a conversation that is not ours", async () => {
    const webhooks = await openPlatformWebhooks();
    await webhooks.post("agent/message", '{"conversationId":"platform-4"}');
    webhooks.forward(60_000);
    await webhooks.scheduler.sweep();
    expect(await webhooks.rows("SELECT state, due_at FROM platform_webhooks")).toEqual([
      { state: "done", due_at: null },
    ]);
    expect(await webhooks.rows(escalations)).toEqual([]);
  });

  it("is not answered when it could not be stored, and kept when it could not be worked off", async () => {
    let full = true;
    const webhooks = await openPlatformWebhooks(chiefPolicy(), (db) => ({
      ...db,
      tx: (work, options) => (full ? Promise.reject(new Error("the disk is full")) : db.tx(work, options)),
    }));
    const send = () => webhooks.post("agent/escalation", '{"conversationId":"platform-5"}');
    expect((await send()).status).toBe(503);
    full = false;
    await webhooks.bound("k", "platform-5");
    await webhooks.db.tx((q) => q.run("ALTER TABLE triggers RENAME TO elsewhere"));
    expect((await send()).status).toBe(200);
    expect(await webhooks.rows("SELECT state FROM platform_webhooks")).toEqual([{ state: "stored" }]);
    expect(await webhooks.rows(escalations), "a step that failed leaves nothing").toEqual([]);
    await webhooks.db.tx((q) => q.run("ALTER TABLE elsewhere RENAME TO triggers"));
    webhooks.forward(15_000);
    await webhooks.scheduler.sweep();
    expect(await webhooks.rows(escalations)).toMatchObject([{ about: "conversation:k" }]);
  });
});

it("is not notified of its own request: a bridge's own address is not a recipient", () => {
  const webhook = (value: string) => ({ channel: "webhook", value }) as const;
  const recipients = [
    webhook("https://bridge.example.com/platform/agent/escalation"),
    webhook("https://bridge.example.com/behind/a/proxy/platform/agent/message?x=1"),
    webhook("https://ops.example.com/platform/hook"),
    { channel: "email", value: "ops@example.com" } as const,
  ];
  const escalations = [{ topic: "refund", response: "", recipients }];
  const line = lineOf({ settings: { ...activeSettings(), escalations } });
  const row = { channel: "c", agent: "agent", topic: "refund" } as EscalationRow;
  expect(agentRecipients(row, new Map([["c", line]])).map(({ address }) => address)).toEqual([
    "https://ops.example.com/platform/hook",
    "ops@example.com",
  ]);
});
