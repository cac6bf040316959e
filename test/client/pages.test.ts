// Going through lists, of good platforms and of odd ones.

import { expect, test } from "vitest";
import { CallFailure, items, pages } from "../../src/client/index.ts";
import { startPacedClient } from "../support/client/client.ts";
import { type Fault, json, status } from "../support/machine/network.ts";

const user = (id: string) => ({ id, firstName: "Jo", lastName: "Doe", isAnonymized: false });
const page = (currentPage: number, totalPages: number, ids: readonly string[], over: object = {}): Fault =>
  json({
    currentPage,
    pageSize: 2,
    totalItems: totalPages * 2,
    totalPages,
    hasNextPage: currentPage < totalPages,
    hasPreviousPage: currentPage > 1,
    data: ids.map(user),
    ...over,
  });

async function gather<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const each of all) found.push(each);
  return found;
}

test("page after page, item after item", async () => {
  const { client, server } = await startPacedClient();
  server.script(page(1, 3, ["a", "b"]), page(2, 3, ["c", "d"]), page(3, 3, ["e"]));
  const found = [];
  for await (const { id } of items((at) => client.agents.users({ ...at, pageSize: 2, orderDirection: "ASC" })))
    found.push(id);
  expect(found).toEqual(["a", "b", "c", "d", "e"]);
  expect(server.received.map(({ path }) => path)).toEqual(
    [1, 2, 3].map((n) => `/external/agents/users?page=${n}&pageSize=2&orderDirection=ASC`),
  );
});

test("a page that fails ends it: as a result, or as an error that carries it", async () => {
  const { client, server } = await startPacedClient({ tries: 1 });
  const script = () => server.script(page(1, 3, ["a", "b"]), status(403), page(3, 3, ["e"]));
  script();
  const kinds = [];
  for await (const result of pages((at) => client.agents.users(at))) kinds.push(result.kind);
  expect(kinds).toEqual(["ok", "unauthorized"]);
  script();
  const all = gather(items((at) => client.agents.users(at)));
  await expect(all).rejects.toBeInstanceOf(CallFailure);
  await expect(all).rejects.toMatchObject({ result: { kind: "unauthorized" } });
});

test("stops requesting pages when the consumer stops", async () => {
  const { client, server } = await startPacedClient();
  server.script(page(1, 9, ["a", "b"]));
  for await (const { id } of items((at) => client.agents.users(at))) if (id === "b") break;
  expect(server.received).toHaveLength(1);
});

test("a platform that always says there is more is believed until it has nothing", async () => {
  const { client, server } = await startPacedClient();
  const more = { hasNextPage: true };
  server.script(page(1, 1, ["a"], more), page(2, 1, [], more));
  expect(await gather(items((at) => client.agents.users(at)))).toHaveLength(1);
  expect(server.received).toHaveLength(2);
});

test("a bare array is the only page; numbers that are missing or wrong are made up for", async () => {
  const { client, server, dropped } = await startPacedClient();
  const file = (id: string) => ({ id, fileName: "a", url: "u", createdAt: "2026-11-20T10:00:00.000Z" });
  server.script(json([file("f-1"), file("f-2")]), json({ data: [file("f-1")], totalPages: "many", currentPage: "2" }));
  expect(await client.files.list()).toMatchObject({
    kind: "ok",
    value: { currentPage: 1, totalItems: 2, totalPages: 1, hasNextPage: false, hasPreviousPage: false },
  });
  expect(await client.files.list()).toMatchObject({
    kind: "ok",
    value: { currentPage: 2, pageSize: 1, totalPages: 2, hasNextPage: false, hasPreviousPage: true },
  });
  expect(dropped).toEqual(["page.totalPages"]);
});

test("an item that cannot be read is named by its path", async () => {
  const { client, server } = await startPacedClient({ tries: 1 });
  server.script(json({ data: [user("a"), { ...user("b"), id: 7 }] }));
  expect(await client.agents.users()).toMatchObject({
    kind: "unknown",
    reason: expect.stringContaining("data.1.id: "),
  });
});
