// Agent files: taken in, made searchable, removed (External API 4.3, and what the public description adds).

import { describe, expect, test } from "vitest";
import { drivers, problems, startTarget } from "../support/external-api/target.ts";

const target = await startTarget();
const file = { name: "lamps.txt", text: "Lamps weigh seven kilograms." };

describe.each(Object.entries(drivers))("through %s:", (_name, driver) => {
  const call = driver(target);
  const find = async (id: string) => {
    const { body } = await call("files.list", { query: { pageSize: "100" } });
    return body.data.find((each: { id: string }) => each.id === id);
  };

  test("a document is taken in, and not searched until it is added", async () => {
    const { status, body } = await call("files.upload", { file });
    expect([status, problems("agent file", body)]).toEqual([200, []]);
    expect(body).toMatchObject({
      fileName: "lamps.txt",
      isUploadedToVectorStore: false,
      vectorStoreUploadStatus: null,
    });
    const { id } = body;
    const listed = await call("files.list");
    expect([listed.status, problems("page", listed.body)]).toEqual([200, []]);
    expect(listed.body.data.flatMap((each: unknown) => problems("agent file", each))).toEqual([]);

    expect(await call("files.addToAssistant", { id })).toMatchObject({ status: 200 });
    const added = await find(id);
    expect(problems("agent file", added)).toEqual([]);
    expect(added).toMatchObject({ isUploadedToVectorStore: true, vectorStoreUploadStatus: "done" });
    expect(added).toHaveProperty("uploadedToVectorStoreAt");
    expect(added).toHaveProperty("vectorStoreFileId");

    expect(await call("files.removeFromVectorStore", { id })).toMatchObject({ status: 200 });
    expect(await find(id)).toMatchObject({ isUploadedToVectorStore: false });
    expect(await call("files.addToVectorStore", { id })).toMatchObject({ status: 200 });
    expect(await find(id)).toMatchObject({ vectorStoreUploadStatus: "done" });
    expect(await call("files.delete", { id })).toMatchObject({ status: 200 });
    expect(await find(id)).toBeUndefined();
    for (const operation of [
      "files.addToAssistant",
      "files.addToVectorStore",
      "files.addToVectorStoreAsync",
      "files.removeFromVectorStore",
      "files.delete",
    ] as const)
      expect([operation, (await call(operation, { id })).status]).toEqual([operation, 404]);
  });

  test("returns before it is read", async () => {
    const { id } = (await call("files.upload", { file })).body;
    expect(await call("files.addToVectorStoreAsync", { id })).toMatchObject({ status: 200 });
    await expect.poll(async () => (await find(id)).vectorStoreUploadStatus).toBe("done");
  });

  test("several are removed at once", async () => {
    const ids = [];
    for (let n = 0; n < 3; n++) ids.push((await call("files.upload", { file })).body.id as string);
    expect(await call("files.deleteMany", { body: { fileIds: ids } })).toMatchObject({ status: 200 });
    for (const id of ids) expect(await find(id)).toBeUndefined();
    expect(await call("files.deleteMany", { body: { fileIds: ["no-uuid"] } })).toMatchObject({ status: 400 });
  });
});

test.each([
  ["no file", () => new FormData()],
  ["a text in its place", () => formOf("a text")],
])("a form with %s is refused in the document's form", async (_what, make) => {
  const response = await fetch(`${target.url}/external/agent-files/upload`, {
    method: "POST",
    headers: { "Agent-Secret-Key": target.agentKey },
    body: make(),
  });
  const body: unknown = await response.json();
  expect([response.status, problems("error", body)]).toEqual([400, []]);
  expect(body).toMatchObject({ status: 400, name: "BAD_REQUEST", message: "INVALID_REQUEST" });
});

function formOf(text: string): FormData {
  const form = new FormData();
  form.set("file", text);
  return form;
}
