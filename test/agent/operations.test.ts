// Each operation against scripted answers: what it sends, what it makes of the answer.

import { describe, expect, test } from "vitest";
import {
  agentRecord,
  conversationRecord,
  emailSkill,
  messageRecord,
  startAgentClient,
  startClient,
} from "../support/client/client.ts";
import { entityNotFound, json, status } from "../support/machine/network.ts";

const person = { firstName: "Jo", lastName: "Doe", fkId: "jo@acme.test", email: "jo@acme.test" };
const userRecord = { id: "u-1", firstName: "Jo", lastName: "Doe", isAnonymized: false };

describe("describe", () => {
  test("reads the agent and its e-mail skill", async () => {
    const { client, server, signal, warnings } = await startAgentClient();
    server.script(json(agentRecord([emailSkill(), { systemName: "TELEPATHY", status: "active", depth: 3 }])));
    expect(await client.describe(signal)).toEqual({
      kind: "ok",
      value: {
        agentId: "6f7b1b3b-3b3b-4b3b-8b3b-3b3b3b3b3b3b",
        organizationId: "5f7b1b3b-3b3b-4b3b-8b3b-3b3b3b3b3b3b",
        name: "Acme Support",
        status: "active",
        email: {
          status: "active",
          responseDelaySeconds: 90,
          signature: "Ada\nAcme",
          senderName: "Ada from Acme",
          defaultSubject: "Your question",
          introduction: "Thank you for writing.",
          address: "support@acme.test",
        },
        sms: null,
        voice: null,
        skills: {
          telepathy: {
            status: "active",
            responseDelaySeconds: 0,
            signature: null,
            senderName: null,
            defaultSubject: null,
            introduction: null,
            address: null,
          },
        },
        escalations: [],
        retention: null,
        webhooks: [],
      },
    });
    expect(server.received[0]).toMatchObject({
      method: "GET",
      path: "/external/agents/by-api-key",
      headers: { "agent-secret-key": "agent-key" },
    });
    expect(warnings).toEqual([]);
  });

  test("reads an active DATA_RETENTION skill, and ignores an inactive or incomplete one", async () => {
    const { client, server, signal } = await startAgentClient();
    const skill = {
      systemName: "DATA_RETENTION",
      status: "active",
      retentionDays: 30,
      anonymizeConversations: true,
      anonymizeConversationUsers: false,
    };
    const { anonymizeConversations: _, ...incomplete } = skill;
    const read = async (one: { readonly systemName: string; readonly status: string }) => {
      server.script(json(agentRecord([one])));
      const result = await client.describe(signal);
      return result.kind === "ok" ? result.value.retention : result;
    };
    expect(await read(skill)).toEqual({ days: 30, conversations: true, people: false });
    expect(await read({ ...skill, status: "inactive" })).toBeNull();
    expect(await read(incomplete)).toBeNull();
  });

  test("reads which webhooks there are, also those that say little else or are inactive", async () => {
    const { client, server, signal } = await startAgentClient();
    const webhooks = [
      {
        url: "https://a.test/",
        triggerCondition: "each_message",
        status: "active",
        title: "",
        description: "",
      },
      { url: "https://b.test/", triggerCondition: "new_trigger", status: "inactive" },
      { url: "https://c.test/" },
      "https://d.test/",
    ];
    server.script(json(agentRecord([{ systemName: "WEBHOOK", status: "inactive", webhooks }])));
    expect(await client.describe(signal)).toMatchObject({
      value: {
        webhooks: [
          { url: "https://a.test/", trigger: "each_message" },
          { url: "https://b.test/", trigger: "new_trigger" },
        ],
      },
    });
  });

  test("reads every complete escalation, without recipients on unknown channels", async () => {
    const { client, server, signal, warnings } = await startAgentClient();
    const mail = { channel: "email", value: "boss@acme.test" };
    const escalations = [
      {
        topic: "refund",
        response: "A colleague answers.",
        recipients: [
          { channel: "chat", value: "#help" },
          { ...mail, headers: null },
        ],
      },
      { topic: "alone", response: "We call you.", recipients: null },
      { topic: "incomplete", recipients: [mail] },
      null,
    ];
    server.script(json(agentRecord([{ systemName: "ESCALATION", status: "active", escalations }])));
    expect(await client.describe(signal)).toMatchObject({
      value: {
        escalations: [
          { topic: "refund", response: "A colleague answers.", recipients: [mail] },
          { topic: "alone", response: "We call you.", recipients: [] },
        ],
      },
    });
    expect(warnings.map(({ field }) => String(field)).toSorted()).toEqual(["escalations", "recipients"]);
  });

  test("accepts an SMS signature as a string, an object with a text, or texts by language", async () => {
    const { client, server, signal } = await startAgentClient();
    const sms = (smsSignature: unknown) => ({
      systemName: "SMS",
      status: "inactive",
      phoneNumber: "+15550100",
      responseDelaySeconds: null,
      defaultSmsIntroduction: { de: "Hallo", en: "Hello" },
      smsSignature,
    });
    const forms = ["- Ada ", { text: "- Ada" }, { fr: "- Ada" }, {}, 7];
    server.script(...forms.map((form) => json(agentRecord([sms(form)]))));
    const seen = [];
    while (seen.length < forms.length) {
      const result = await client.describe(signal);
      seen.push(result.kind === "ok" ? result.value.sms?.signature : result.kind);
      expect(result).toMatchObject({
        value: {
          sms: { status: "inactive", introduction: "Hello", responseDelaySeconds: 0, address: "+15550100" },
        },
      });
    }
    expect(seen).toEqual(["- Ada", "- Ada", "- Ada", null, null]);
  });

  test("drops optional fields of a wrong type and says so once", async () => {
    const { client, server, signal, warnings } = await startAgentClient();
    const broken = emailSkill({ responseDelaySeconds: "90", emailSignature: 5, senderName: null });
    server.script(json(agentRecord([broken], { tags: "none", aiConfig: 5, status: "archived" })));
    const expected = {
      status: "inactive",
      email: { responseDelaySeconds: 0, signature: null, senderName: null },
    };
    expect(await client.describe(signal)).toMatchObject({ kind: "ok", value: expected });
    expect(await client.describe(signal)).toMatchObject({ kind: "ok", value: expected });
    const told = warnings.map(({ record, field }) => `${String(record)}.${String(field)}`).toSorted();
    expect(told).toEqual([
      "EMAIL skill.emailSignature",
      "EMAIL skill.responseDelaySeconds",
      "agent.aiConfig",
      "agent.tags",
    ]);
  });

  test("names the path of a required field of a wrong type", async () => {
    const { client, server, signal } = await startAgentClient();
    server.script(json(agentRecord([{ systemName: "EMAIL", status: 1 }])));
    expect(await client.describe(signal)).toMatchObject({
      kind: "unknown",
      reason: expect.stringContaining("skills.0.status: "),
    });
  });
});

describe("opening a conversation", () => {
  test("start sends the body as it is", async () => {
    const { client, server, effect } = await startAgentClient();
    server.script(json({ conversationId: "c-9", extra: true }, 201));
    const { email, firstName, lastName } = person;
    const request = {
      firstName,
      lastName,
      channel: "email",
      email,
      emailSubject: "S",
      emailIntroduction: "I",
    } as const;
    const call = effect();
    expect(await client.start(request, call)).toMatchObject({ kind: "ok", value: { conversationId: "c-9" } });
    expect(call.crossings()).toBe(1);
    expect(JSON.parse(server.received[0]?.body ?? "")).toEqual(request);
    expect(server.received[0]).toMatchObject({ method: "POST", path: "/external/conversations/start" });
  });

  test("start without a conversationId in the answer is unknown", async () => {
    const { client, server, effect } = await startAgentClient();
    server.script(json({ id: "c-9" }, 201));
    const request = { ...person, channel: "email", emailSubject: "S", emailIntroduction: "I" } as const;
    expect(await client.start(request, effect())).toMatchObject({ kind: "unknown" });
  });

  test("create makes the user and the conversation, and crosses for the conversation only", async () => {
    const { client, server, effect } = await startAgentClient();
    server.script(json(userRecord, 201), json(conversationRecord({ id: "c-7" }), 201));
    const call = effect();
    const request = { ...person, conversationContext: "about" };
    expect(await client.create(request, call)).toEqual({ kind: "ok", value: { conversationId: "c-7" } });
    expect(call.crossings()).toBe(1);
    expect(server.received.map(({ path }) => path)).toEqual(["/external/users", "/external/conversations"]);
    expect(JSON.parse(server.received[0]?.body ?? "")).toEqual(person);
    const body = { conversationUserId: "u-1", context: "about" };
    expect(JSON.parse(server.received[1]?.body ?? "")).toEqual(body);
  });

  test("create finds the existing user by any of its identifiers", async () => {
    const { client, server, effect } = await startAgentClient();
    const found = json({ user: userRecord, conversationIds: [] });
    server.script(status(400), entityNotFound, found, json(conversationRecord(), 201));
    expect(await client.create(person, effect())).toMatchObject({ kind: "ok" });
    const search = "/external/users/search?";
    expect(server.received.slice(1, 3).map(({ path }) => path)).toEqual([
      `${search}fkId=jo%40acme.test`,
      `${search}email=jo%40acme.test`,
    ]);
  });

  test("create is refused when the user is neither acceptable nor found", async () => {
    const { client, server, effect } = await startAgentClient();
    server.script(status(422), entityNotFound);
    const call = effect();
    expect(await client.create(person, call)).toMatchObject({ kind: "refused", status: 422 });
    expect(call.crossings()).toBe(0);
  });

  test("create is deferred while the user is in doubt, unknown once the conversation is", async () => {
    const { client, server, effect } = await startAgentClient();
    server.script(status(500));
    expect(await client.create(person, effect())).toMatchObject({ kind: "deferred" });
    server.script(json(userRecord, 201), status(500));
    expect(await client.create(person, effect())).toMatchObject({ kind: "unknown" });
  });

  test("findConversations gives none for an unknown person", async () => {
    const { client, server, signal } = await startAgentClient();
    server.script(json({ user: userRecord, conversationIds: ["c-1", "c-2"] }), entityNotFound);
    expect(await client.findConversations("jo", signal)).toEqual({ kind: "ok", value: ["c-1", "c-2"] });
    expect(await client.findConversations("jo", signal)).toEqual({ kind: "ok", value: [] });
  });
});

describe("asking", () => {
  test("sends text and context below the base address's path", async () => {
    const { server } = await startAgentClient();
    const { client, effect } = startClient(`${server.url}/eu/`);
    server.script(json(messageRecord("a-1", "assistant", "Yes.", { conversationMessageId: "q-1" }), 201));
    const result = await client.ask("c/1", { text: "Is it?", context: "mail" }, effect());
    expect(result).toEqual({ kind: "ok", value: { questionId: "q-1", replyId: "a-1", text: "Yes." } });
    expect(server.received[0]?.path).toBe("/eu/external/conversations/c%2F1/messages");
    expect(JSON.parse(server.received[0]?.body ?? "")).toEqual({ message: "Is it?", context: "mail" });
  });

  test("the user's own message in the response means that there is no answer yet", async () => {
    const { client, server, effect } = await startAgentClient();
    server.script(json(messageRecord("q-1", "conversation_user", "Is it?"), 201));
    expect(await client.ask("c-1", { text: "Is it?" }, effect())).toEqual({
      kind: "ok",
      value: { questionId: "q-1", replyId: null, text: null },
    });
  });

  test("an empty reply, or one that names only itself, is still read", async () => {
    const { client, server, effect } = await startAgentClient();
    server.script(json(messageRecord("a-1", "some_other_agent", " \n"), 201));
    expect(await client.ask("c-1", { text: "Is it?" }, effect())).toEqual({
      kind: "ok",
      value: { questionId: null, replyId: "a-1", text: null },
    });
  });
});

test.each([
  ["manual", "manual"],
  ["MANUAL", "manual"],
  ["ai", "ai"],
  ["copilot", "ai"],
  [undefined, "ai"],
  [3, "ai"],
])("mode %s reads as %s", async (given, expected) => {
  const { client, server, signal } = await startAgentClient();
  server.script(json(conversationRecord({ mode: given })));
  expect(await client.mode("c-1", signal)).toEqual({ kind: "ok", value: expected });
});
