// Who may do what (External API 5), and how a refusal looks (7): of every operation.

import { describe, expect, test } from "vitest";
import {
  type Ask,
  drivers,
  type OperationName,
  operations,
  problems,
  startTarget,
} from "../support/external-api/target.ts";

const target = await startTarget();
const { foreign } = target;
const names = Object.keys(operations) as OperationName[];
const nowhere = "0f6c3c1e-0000-4e0b-9c39-0d3f5c1b2a10";
const forbidden = { status: 403, name: "FORBIDDEN_ERROR", message: "INVALID_CREDENTIALS" };
const notFound = { status: 404, name: "ENTITY_NOT_FOUND_ERROR", message: "ENTITY_NOT_FOUND" };
const said = { message: "hi" };

/** A request that is right but for its key or its id. */
const asks: { readonly [name in OperationName]?: Ask } = {
  "conversations.start": {
    body: { firstName: "A", lastName: "B", channel: "sms", phoneNumber: "+15550123", smsIntroduction: "Hi" },
  },
  "conversations.send": { body: said },
  "conversations.sendAsync": { body: said },
  "conversations.sendManual": { body: said },
  "conversations.setMode": { body: { mode: "manual" } },
  "conversations.update": { body: { title: "T" } },
  "conversations.create": { body: { conversationUserId: nowhere } },
  "conversations.response": { messageId: nowhere },
  "conversations.uploadUrl": { body: { fileName: "a.txt", contentType: "text/plain" } },
  "conversations.fileUrl": { fileId: nowhere },
  "conversations.deleteAll": { body: { conversationUserId: nowhere } },
  "users.create": { body: { firstName: "A", lastName: "B", fkId: "conformance-nobody" } },
  "files.upload": { file: { name: "a.txt", text: "a" } },
  "files.deleteMany": { body: { fileIds: [nowhere] } },
  "webhooks.register": {
    body: { title: "T", description: "D", url: "https://example.com/", triggerCondition: "manual" },
  },
};
const namesSomething = ["agents.usersOf", "conversations.create"];
const addressed = names.filter((name) => operations[name][1].includes("{id}") || namesSomething.includes(name));

describe.each(Object.entries(drivers))("through %s:", (_name, driver) => {
  const call = driver(target);

  test.each(names)("%s is refused to a wrong key", async (name) => {
    const { status, body } = await call(name, { id: nowhere, ...asks[name], key: "wrong-key" });
    expect(status).toBe(403);
    if (body === undefined) return;
    expect(problems("error", body)).toEqual([]);
    expect(body).toMatchObject(forbidden);
  });

  test.each(addressed)("%s of what is not there is 404", async (name) => {
    const { status, body } = await call(name, { id: nowhere, ...asks[name] });
    expect(status).toBe(404);
    if (body === undefined) return;
    expect(problems("error", body)).toEqual([]);
    expect(body).toMatchObject(notFound);
  });

  test.runIf(foreign)("what is another tenant's is not there", async () => {
    const other = { key: foreign?.agentKey ?? "" };
    const start = asks["conversations.start"]?.body;
    const id = (await call("conversations.start", { body: start, ...other })).body.conversationId as string;
    const { conversationUserId } = (await call("conversations.get", { id, ...other })).body;
    const file = await call("files.upload", { ...asks["files.upload"], ...other });
    for (const name of addressed.filter((each) => each.startsWith("conversations.")))
      expect([name, (await call(name, { id, ...asks[name] })).status]).toEqual([name, 404]);
    const owned = { body: { conversationUserId } };
    expect(await call("conversations.create", owned)).toMatchObject({ status: 404 });
    expect(await call("users.get", { id: conversationUserId })).toMatchObject({ status: 404 });
    expect(await call("users.delete", { id: conversationUserId })).toMatchObject({ status: 404 });
    for (const name of addressed.filter((each) => each.startsWith("files.")))
      expect([name, (await call(name, { id: file.body.id })).status]).toEqual([name, 404]);
    await call("conversations.deleteAll", owned);
    await call("files.deleteMany", { body: { fileIds: [file.body.id] } });
    expect(await call("conversations.get", { id, ...other })).toMatchObject({ status: 200 });
    const files = (await call("files.list", other)).body.data as { id: string }[];
    expect(files.map((each) => each.id)).toContain(file.body.id);
    for (const name of ["agents.usersOf", "agents.platformUsersOf"] as const)
      expect([name, (await call(name, { id: foreign?.agentId ?? "" })).status]).toEqual([name, 404]);
    // And they find what is theirs.
    const own = { id: foreign?.agentId ?? "", key: foreign?.organizationKey ?? "" };
    expect(await call("agents.usersOf", own)).toMatchObject({ status: 200 });
  });
});

describe("a credential", () => {
  const get = async (path: string, headers: { [name: string]: string }) => {
    const response = await fetch(`${target.url}/external/${path}`, { headers });
    const body: unknown = await response.json();
    return { status: response.status, body };
  };
  const { agentKey, organizationKey } = target;

  test.each([
    ["none", "agents/by-api-key", {}],
    ["an empty one", "agents/by-api-key", { "Agent-Secret-Key": "" }],
    ["a bearer token in its place", "agents/by-api-key", { authorization: `Bearer ${agentKey}` }],
    ["the organization's for an agent's operation", "agents/users", { "Organization-Secret-Key": organizationKey }],
    ["the organization's in the agent's header", "agents/users", { "Agent-Secret-Key": organizationKey }],
    ["an agent's for the organization's operation", `agents/${nowhere}/users`, { "Agent-Secret-Key": agentKey }],
    ["an agent's in the organization's header", `agents/${nowhere}/users`, { "Organization-Secret-Key": agentKey }],
  ])("%s is refused", async (_what, path, headers) => {
    const { status, body } = await get(path, headers);
    expect([status, problems("error", body)]).toEqual([403, []]);
    expect(body).toMatchObject(forbidden);
  });

  test("is known in any writing of its header", async () => {
    expect(await get("agents/by-api-key", { "AGENT-SECRET-KEY": agentKey })).toMatchObject({ status: 200 });
  });
});
