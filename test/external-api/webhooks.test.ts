// Webhooks: their registration (External API 4.3), and their events (6).

import { describe, expect, test } from "vitest";
import { drivers, embedded, problems, startTarget } from "../support/external-api/target.ts";
import { bodyServer, serve } from "../support/machine/network.ts";

const target = await startTarget();
const triggers = [
  "each_message",
  "start_dialog",
  "end_dialog",
  "chat_currently_unavailable",
  "auto_archive_conversation",
  "manual",
];
const hook = (over: object = {}) => ({
  title: "CRM",
  description: "Keeps it",
  url: target.webhookUrl,
  triggerCondition: "manual",
  headers: { Authorization: "Bearer token" },
  ...over,
});

describe.each(Object.entries(drivers))("through %s:", (_name, driver) => {
  const call = driver(target);

  test.each(triggers)("one is registered for %s", async (triggerCondition) => {
    const { status, body } = await call("webhooks.register", { body: hook({ triggerCondition }) });
    expect([status, problems("webhook", body)]).toEqual([200, []]);
    expect(body).toMatchObject({ ...hook({ triggerCondition }), status: "active" });
    expect(body.agentId).toBe((await call("agents.get")).body.id);
  });

  test.each([
    ["an event that is none", { triggerCondition: "each_year" }],
    ["no title", { title: undefined }],
    ["no description", { description: undefined }],
    ["no address", { url: undefined }],
    ["plain http", { url: "http://example.com/" }],
    ["this machine", { url: "https://127.0.0.1/" }],
    ["a private address", { url: "https://10.0.0.1/" }],
    ["the cloud's metadata", { url: "https://169.254.169.254/latest" }],
    ["a header that would be two", { headers: { a: "b\r\nc: d" } }],
  ])("none is for %s", async (_what, over) => {
    expect(await call("webhooks.register", { body: hook(over) })).toMatchObject({ status: 400 });
  });
});

test.runIf(embedded)(
  "deliveries carry the person, the transcript and the score, under the configured headers",
  async () => {
    const own = await startTarget({ allowPrivateWebhooks: true });
    const received: { headers: { [name: string]: unknown }; body: { [name: string]: unknown } }[] = [];
    const server = bodyServer((text, response, request) => {
      received.push({ headers: { ...request.headers, method: request.method }, body: JSON.parse(text) });
      response.end();
    });
    const url = `${await serve(server)}/`;
    const call = drivers["the client"](own);
    for (const triggerCondition of ["start_dialog", "each_message", "end_dialog"])
      await call("webhooks.register", { body: hook({ url, triggerCondition, headers: { "x-own": "1" } }) });
    const start = { firstName: "Jo", lastName: "Doe", channel: "email", email: "jo@example.com" };
    const body = { ...start, emailSubject: "S", emailIntroduction: "Hello" };
    const id = (await call("conversations.start", { body })).body.conversationId as string;
    await call("conversations.send", { id, body: { message: "Are you open?" } });
    const kinds = () => received.map((each) => String(each.body["triggerCondition"])).sort();
    // A dialog does not end by a message.
    await expect.poll(kinds).toEqual(["each_message", "start_dialog"]);
    const turn = received.find((each) => each.body["triggerCondition"] === "each_message");
    expect(turn?.headers).toMatchObject({ method: "POST", "x-own": "1", "content-type": "application/json" });
    expect(turn?.body).toMatchObject({ conversationId: id, score: null });
    expect(problems("agent user", turn?.body["user"])).toEqual([]);
    expect(problems("conversation", turn?.body["conversation"])).toEqual([]);
    const messages = turn?.body["messages"] as { message: string }[];
    expect(messages.flatMap((each) => problems("message", each))).toEqual([]);
    expect(messages.map(({ message }) => message)).toContain("Are you open?");
  },
);
