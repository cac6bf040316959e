// What belongs to another agent, of the same organization or of another, is not there: in a path, in a body, in a query.

import { describe, expect, test } from "vitest";
import {
  bodies,
  credential,
  formProblem,
  furnish,
  type Grounds,
  hasBody,
  namedBy,
  type OperationName,
  operationNames,
  operations,
  pathOf,
  startGrounds,
  type Tenant,
  type Things,
} from "../../support/platform/tenants.ts";

const notFound = {
  status: 404,
  name: "ENTITY_NOT_FOUND_ERROR",
  message: "ENTITY_NOT_FOUND",
  details: [],
};
const others = ["sister", "foreign"] as const;
const wordOf = (tenant: Tenant) => `secret-of-${tenant}`;
const addressed = operationNames.filter((name) => namedBy(name).length > 0);
const reading = operationNames.filter((name) => operations[name].method === "GET");

/** Everything a tenant can read of its own, to see whether anybody changed it. */
async function allOf({ ask }: Grounds, tenant: Tenant, things: Things): Promise<string[]> {
  const texts: string[] = [];
  for (const name of reading.filter((each) => operations[each].key === "agent" && each !== "getMessageFileUrl")) {
    const path = pathOf(
      name,
      namedBy(name).map((thing) => things[thing]),
    );
    const query = name === "searchUser" ? `?fkId=fk-${wordOf(tenant)}` : "";
    const { status, text } = await ask({
      method: "GET",
      path: path + query,
      headers: credential("agent", tenant),
    });
    expect([name, status]).toEqual([name, 200]);
    // Deliveries go on by themselves.
    if (name !== "listDeliveries") texts.push(text);
  }
  return texts;
}

/** Each way to add the other tenant's ids to ours, or to replace ours. */
function mixtures(name: OperationName, ours: Things, theirs: Things): string[][] {
  const named = namedBy(name);
  const mixed = named.map((_thing, at) => named.map((thing, index) => (index === at ? theirs[thing] : ours[thing])));
  return [...mixed, named.map((thing) => theirs[thing])];
}

describe.each(others)("of a %s agent", (tenant) => {
  test("nothing is found by its id, and nothing of it changes", async () => {
    const grounds = await startGrounds();
    const ours = await furnish(grounds, "own");
    const theirs = await furnish(grounds, tenant);
    const before = await allOf(grounds, tenant, theirs);
    const tried = addressed.filter((name) => tenant === "foreign" || operations[name].key === "agent");
    for (const name of tried) {
      const { method, key } = operations[name];
      const body = hasBody(name) ? bodies[name](ours) : undefined;
      for (const ids of mixtures(name, ours, theirs)) {
        const asked = { method, path: pathOf(name, ids), headers: credential(key, "own"), body };
        const { status, text } = await grounds.ask(asked);
        expect([asked, status, JSON.parse(text)]).toEqual([asked, 404, notFound]);
      }
    }
    expect(await allOf(grounds, tenant, theirs)).toEqual(before);
    expect(grounds.errors).toEqual([]);
  });

  test("no id in a body does anything", async () => {
    const grounds = await startGrounds();
    const ours = await furnish(grounds, "own");
    const theirs = await furnish(grounds, tenant);
    const before = await allOf(grounds, tenant, theirs);
    const say = (name: OperationName, body: object) =>
      grounds.ask({
        method: operations[name].method,
        path: pathOf(
          name,
          namedBy(name).map((thing) => ours[thing]),
        ),
        headers: credential("agent", "own"),
        body,
      });
    const files = [{ fileName: "a.txt", storagePath: theirs.storagePath }];
    const states = await grounds.ask({
      method: "GET",
      path: operations.listConversationStates.path,
      headers: credential("agent", "foreign"),
    });
    const conversationStateId = (JSON.parse(states.text) as { data: [{ id: string }] }).data[0].id;
    await say("setConversationMode", { mode: "manual" });
    const answers = [
      [404, await say("createConversation", { conversationUserId: theirs.user })],
      [204, await say("deleteConversations", { conversationUserId: theirs.user })],
      [200, await say("deleteFiles", { fileIds: [theirs.file] })],
      [404, await say("fireWebhook", { conversationId: theirs.conversation })],
      [400, await say("sendMessage", { message: "a", files })],
      [400, await say("sendMessageAsync", { message: "a", files })],
      [400, await say("sendManualMessage", { message: "a", files })],
      [400, await say("sendManualMessage", { message: "a", conversationMessageId: theirs.message })],
      [400, await say("startConversation", { ...bodies.startConversation(ours), conversationStateId })],
      [400, await say("createConversation", { conversationUserId: ours.user, conversationStateId })],
      [400, await say("updateConversation", { conversationStateId })],
      [201, await say("startConversation", { ...bodies.startConversation(ours), authorId: theirs.user })],
    ] as const;
    expect(answers.map(([, { status }]) => status)).toEqual(answers.map(([status]) => status));
    for (const [, answered] of answers) {
      expect(answered.text).not.toContain(wordOf(tenant));
      if (answered.status >= 400) expect(formProblem(answered)).toBeNull();
    }
    expect(await allOf(grounds, tenant, theirs)).toEqual(before);
  });

  test("no list, search or statistic tells", async () => {
    const grounds = await startGrounds();
    const ours = await furnish(grounds, "own");
    const theirs = await furnish(grounds, tenant);
    const word = wordOf(tenant);
    const queries = [
      "",
      `?userId=${theirs.user}`,
      `?conversationUserId=${theirs.user}`,
      `?fkId=fk-${word}`,
      `?fkUserId=fku-${word}`,
      `?searchKeyword=${word}`,
      `?email=${word}@example.test`,
    ];
    for (const name of reading) {
      const path = pathOf(
        name,
        namedBy(name).map((thing) => ours[thing]),
      );
      for (const query of queries) {
        const asked = {
          method: "GET",
          path: path + query,
          headers: credential(operations[name].key, "own"),
        };
        const { text } = await grounds.ask(asked);
        expect([asked, text.includes(word)]).toEqual([asked, false]);
      }
    }
    for (const query of queries.slice(1, 5)) {
      const path = operations.getStatistic.path + query;
      const { text } = await grounds.ask({ method: "GET", path, headers: credential("agent", "own") });
      expect([query, Object.values(JSON.parse(text) as object).every((value) => value === 0)]).toEqual([query, true]);
    }
  });

  test("a signed address opens the file it was made for, and no other", async () => {
    const grounds = await startGrounds();
    const ours = await furnish(grounds, "own");
    const theirs = await furnish(grounds, tenant);
    const path = pathOf("getMessageFileUrl", [ours.conversation, ours.messageFile]);
    const { text } = await grounds.ask({ method: "GET", path, headers: credential("agent", "own") });
    const address = new URL((JSON.parse(text) as { signedUrl: string }).signedUrl);
    const at = address.pathname + address.search;
    expect(await grounds.ask({ method: "GET", path: at })).toMatchObject({
      status: 200,
      text: `A file of ${wordOf("own")}`,
    });
    for (const [method, changed] of [
      ["GET", at.replace(ours.messageFile, theirs.messageFile)],
      ["PUT", at.replace("/download", "/upload")],
      ["PUT", at.replace(ours.messageFile, theirs.messageFile).replace("/download", "/upload")],
      ["GET", at.replace(/expires=\d+/, "expires=9999999999999")],
      ["GET", at.replace(/expires=\d+&/, "")],
      ["GET", at.replace(/signature=/, "signature=x")],
    ] as const) {
      const answered = await grounds.ask({ method, path: changed, body: method === "PUT" ? "x" : undefined });
      expect([changed, answered.status, formProblem(answered)]).toEqual([changed, 403, null]);
    }
  });
});
