// What each method sends: the table's method and path, the right key, escaped ids, forms.

import { describe, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/index.ts";
import { type Operation, operations } from "../../src/wire/operations/index.ts";
import { conversationRecord, messageRecord, startPacedClient } from "../support/client/client.ts";
import { json, status, text } from "../support/machine/network.ts";

const person = { firstName: "Jo", lastName: "Doe" };
const opening = { ...person, channel: "sms", phoneNumber: "+15550101", smsIntroduction: "Hi" } as const;
const said = { message: "hi" };
const hook = {
  title: "T",
  description: "D",
  url: "https://hooks.test/",
  triggerCondition: "manual",
} as const;

/** One call of each operation of the table; a missing one does not compile. */
const calls: { readonly [id in keyof typeof operations]: (client: Client) => Promise<{ kind: string }> } = {
  getAgent: ({ agents }) => agents.get(),
  listAgentUsers: ({ agents }) => agents.users(),
  listAdminUsers: ({ agents }) => agents.adminUsers(),
  getStatistic: ({ agents }) => agents.statistic(),
  listEscalations: ({ agents }) => agents.escalations(),
  listUsersOfAgent: ({ agents }) => agents.usersOf("ID"),
  listPlatformUsers: ({ agents }) => agents.platformUsersOf("ID"),
  startConversation: ({ conversations }) => conversations.start(opening),
  createConversation: ({ conversations }) => conversations.create({ conversationUserId: "u" }),
  listConversations: ({ conversations }) => conversations.list(),
  deleteConversations: ({ conversations }) => conversations.deleteAll({ conversationUserId: "u" }),
  listConversationStates: ({ conversations }) => conversations.states(),
  getConversation: ({ conversations }) => conversations.get("ID"),
  updateConversation: ({ conversations }) => conversations.update("ID", { title: "T" }),
  setConversationMode: ({ conversations }) => conversations.setMode("ID", "manual"),
  sendMessage: ({ conversations }) => conversations.send("ID", said),
  listMessages: ({ conversations }) => conversations.messages("ID"),
  sendMessageAsync: ({ conversations }) => conversations.sendAsync("ID", said),
  getResponse: ({ conversations }) => conversations.response("ID", "MESSAGE"),
  sendManualMessage: ({ conversations }) => conversations.sendManual("ID", said),
  createUploadUrl: ({ conversations }) =>
    conversations.uploadUrl("ID", { fileName: "a.txt", contentType: "text/plain" }),
  getMessageFileUrl: ({ conversations }) => conversations.fileUrl("ID", "FILE"),
  createUser: ({ users }) => users.create({ ...person, fkId: "jo" }),
  searchUser: ({ users }) => users.search({}),
  getUser: ({ users }) => users.get("ID"),
  deleteUser: ({ users }) => users.delete("ID"),
  uploadFile: ({ files }) => files.upload({ fileName: "a.txt", bytes: new Uint8Array() }),
  listFiles: ({ files }) => files.list(),
  getFileContent: ({ files }) => files.content("ID"),
  addFileToAssistant: ({ files }) => files.addToAssistant("ID"),
  addFileToVectorStore: ({ files }) => files.addToVectorStore("ID"),
  addFileToVectorStoreAsync: ({ files }) => files.addToVectorStoreAsync("ID"),
  removeFileFromVectorStore: ({ files }) => files.removeFromVectorStore("ID"),
  deleteFile: ({ files }) => files.delete("ID"),
  deleteFiles: ({ files }) => files.deleteMany(["ID"]),
  registerWebhook: ({ webhooks }) => webhooks.register(hook),
  listWebhooks: ({ webhooks }) => webhooks.list(),
  deleteWebhook: ({ webhooks }) => webhooks.delete("ID"),
  listDeliveries: ({ webhooks }) => webhooks.deliveries("ID"),
  fireWebhook: ({ webhooks }) => webhooks.fire("ID", "c"),
  resendDelivery: ({ webhooks }) => webhooks.resend("ID"),
};

test.each(Object.entries<Operation>(operations))("%s is asked as the table says", async (id, operation) => {
  const { client, server } = await startPacedClient({ tries: 1 });
  server.script(status(400));
  const call = calls[id as keyof typeof operations];
  expect(await call(client)).toMatchObject({ kind: "refused", status: 400 });
  const path = operation.path.replace("{id}", "ID").replace("{messageId}", "MESSAGE").replace("{fileId}", "FILE");
  expect(server.received).toMatchObject([{ method: operation.method, path }]);
  const { headers, body } = server.received[0] ?? {};
  const { key } = operation;
  const own = key === "agent" ? "agent-secret-key" : "organization-secret-key";
  const other = key === "agent" ? "organization-secret-key" : "agent-secret-key";
  expect(headers?.[own]).toBe(`${key}-key`);
  expect(headers).not.toHaveProperty(other);
  expect(headers).toMatchObject({ accept: "application/json", "accept-encoding": "identity" });
  if (operation.body)
    expect(operation.body.safeParse(JSON.parse(body ?? "")).error?.issues ?? []).toEqual(expectedIssues(id));
  // The interface's own 404 is `missing` where the table lists it.
  server.script(json({ status: 404, name: "ENTITY_NOT_FOUND_ERROR", message: "", details: [] }, 404));
  expect((await call(client)).kind).toBe(operation.errors.includes(404) ? "missing" : "deferred");
});

test.each(["listFiles", "registerWebhook"] as const)("a 404 of %s says that the agent is not there", async (id) => {
  const { client, server } = await startPacedClient({ tries: 1 });
  server.script(json({ status: 404, name: "ENTITY_NOT_FOUND_ERROR", message: "ENTITY_NOT_FOUND", details: [] }, 404));
  expect((await calls[id](client)).kind).toBe("missing");
});

/** The one body above that is no right one: its id is no uuid. */
const expectedIssues = (id: string) =>
  id === "deleteFiles" ? [expect.objectContaining({ path: ["fileIds", 0] })] : [];

describe("an id", () => {
  test.each(["a/b", "a?b=c", "a#b", "a%2Fb", "ä b", "..%2f", "\r\nx: y"])("%j stays one segment", async (id) => {
    const { client, server } = await startPacedClient();
    server.script(json(conversationRecord()));
    expect(await client.conversations.get(id)).toMatchObject({ kind: "ok" });
    const path = server.received[0]?.path ?? "";
    expect(path.split("/")).toHaveLength(4);
    expect(decodeURIComponent(path.split("/")[3] ?? "")).toBe(id);
    expect(server.received[0]?.headers).not.toHaveProperty("x");
  });

  test.each(["", ".", ".."])("%j is refused unsent", async (id) => {
    const { client, server } = await startPacedClient();
    expect(await client.conversations.get(id)).toMatchObject({ kind: "refused", status: 400 });
    expect(server.received).toEqual([]);
  });
});

test("query parameters are escaped, and left out when they are undefined", async () => {
  const { client, server } = await startPacedClient();
  server.script(status(400));
  await client.conversations.list({
    page: 2,
    pageSize: undefined,
    searchKeyword: "a&b=c +",
    orderBy: "updatedAt",
  });
  expect(server.received[0]?.path).toBe(
    "/external/conversations?page=2&searchKeyword=a%26b%3Dc%20%2B&orderBy=updatedAt",
  );
});

test("half a character is replaced, wherever it stands: nothing throws", async () => {
  const { server, client } = await startPacedClient();
  server.script(status(400));
  const half = "\ud83d";
  const results = [
    await client.users.get(half),
    await client.users.search({ fkId: half }),
    await client.conversations.send("c", { message: half }),
  ];
  expect(results.every(({ kind }) => kind === "refused")).toBe(true);
  const whole = encodeURIComponent("\ufffd");
  expect(server.received.map(({ path }) => path)).toEqual([
    `/external/users/${whole}`,
    `/external/users/search?fkId=${whole}`,
    "/external/conversations/c/messages",
  ]);
});

describe("where the platform is:", () => {
  test("a region's address, with its path", async () => {
    const { server } = await startPacedClient();
    server.script(json(conversationRecord()));
    const options = { agentKey: "k", timeoutMs: 60_000 };
    const client = createClient({
      ...options,
      region: "eu",
      urls: { us: "http://x.test", eu: `${server.url}/eu/` },
    });
    expect(await client.conversations.get("c-1")).toMatchObject({ kind: "ok" });
    await client.close();
    expect(server.received[0]?.path).toBe("/eu/external/conversations/c-1");
    expect(() => createClient({ ...options, region: "eu", urls: { us: "http://x.test" } })).toThrow("region eu");
    expect(() => createClient({ ...options, url: "nowhere" })).toThrow("URL");
  });

  test("without the key that an operation needs nothing is sent", async () => {
    const { server } = await startPacedClient();
    const client = createClient({ url: server.url, agentKey: "k", timeoutMs: 60_000 });
    expect(await client.agents.usersOf("a-1")).toEqual({
      kind: "unauthorized",
      reason: "no organization key was given",
    });
    await client.close();
    expect(server.received).toEqual([]);
  });
});

describe("documents", () => {
  const file = {
    id: "f-1",
    fileName: "a.txt",
    url: "https://x.test/a",
    createdAt: "2026-11-20T10:00:00.000Z",
  };

  test("go as a form with one file", async () => {
    const { client, server } = await startPacedClient();
    server.script(json(file));
    const bytes = new TextEncoder().encode("seven kilograms");
    const fileName = 'a "b"\r\nx.txt';
    const sent = await client.files.upload({
      fileName,
      bytes,
      mediaType: "text/plain",
      autoAddToVectorStore: true,
    });
    expect(sent).toMatchObject({ kind: "ok", value: file });
    const { headers, body } = server.received[0] ?? {};
    const form = await new Response(body, {
      headers: { "content-type": headers?.["content-type"] ?? "" },
    }).formData();
    const got = form.get("file") as File;
    expect([await got.text(), got.type, form.get("autoAddToVectorStore")]).toEqual([
      "seven kilograms",
      "text/plain",
      "true",
    ]);
  });

  test("come as they are, and not cut", async () => {
    const { client, server } = await startPacedClient({ tries: 1 });
    server.script(text("{ not json", "text/plain"));
    const got = await client.files.content("f-1");
    expect(got.kind === "ok" && Buffer.from(got.value).toString()).toBe("{ not json");
    server.script((_request, response, socket) => {
      response.writeHead(200, { "content-length": 100 });
      response.write("half", () => socket.destroy());
    });
    expect(await client.files.content("f-1")).toMatchObject({ kind: "unknown" });
  });

  test("an empty answer is one", async () => {
    const { client, server } = await startPacedClient();
    server.script(text("", "text/plain", 200));
    expect(await client.files.addToAssistant("f-1")).toEqual({ kind: "ok", value: undefined });
  });
});

test("records are read leniently, and dropped ones are reported once", async () => {
  const { client, server, dropped } = await startPacedClient();
  server.script(json(messageRecord("a", "assistant", "Yes", { subagentId: 7, source: 8, more: true }), 201));
  const [first] = [await client.conversations.send("c", said), await client.conversations.send("c", said)];
  expect(first).toMatchObject({ kind: "ok", value: { id: "a", message: "Yes", more: true } });
  expect(first.kind === "ok" && [first.value.source, first.value.subagentId]).toEqual([undefined, undefined]);
  expect(dropped.toSorted()).toEqual(["message.source", "message.subagentId"]);
  server.script(json({ id: "a", message: null, senderRole: "assistant" }, 201));
  expect(await client.conversations.send("c", said)).toMatchObject({
    kind: "unknown",
    reason: expect.stringContaining("message: Invalid input"),
  });
});

test("a refusal names the fields that were why, when the platform does", async () => {
  const { client, server } = await startPacedClient();
  const details = [{ path: "email", message: "is none" }];
  server.script(json({ name: "BAD_REQUEST", message: "INVALID_REQUEST", details }, 400), status(400));
  const refused = { kind: "refused", status: 400 };
  expect(await client.users.create({ ...person, fkId: "jo" })).toEqual({
    ...refused,
    reason: "HTTP 400: BAD_REQUEST: INVALID_REQUEST (email)",
    details,
  });
  expect(await client.users.create({ ...person, fkId: "jo" })).not.toHaveProperty("details");
});

test("the package gives it by name", async () => {
  const named = await import("bridgehead/client");
  expect(named.createClient).toBe(createClient);
});
