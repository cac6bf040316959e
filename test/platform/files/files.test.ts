// Agent files: taken in, added, answered from with a citation, withdrawn, removed (External API 4.3).

import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { agentFile } from "../../../src/wire/agent.ts";
import {
  docxBomb,
  docxOf,
  keys,
  pdfBomb,
  pdfOf,
  startTestPlatform,
  type TestPlatform,
} from "../../support/platform/platform.ts";
import { newFolder } from "../../support/resources.ts";

const text = "The Aurora lamp weighs seven kilograms and ships in a wooden crate.";
const question = "How much does the Aurora lamp weigh?";
const missing = { status: 404, body: { message: "ENTITY_NOT_FOUND" } };

async function upload(
  { platform }: TestPlatform,
  name: string,
  bytes: string | Uint8Array<ArrayBuffer>,
  { key = keys.support, add = false }: { readonly key?: string; readonly add?: boolean | string } = {},
) {
  const form = new FormData();
  form.set("file", new File([bytes], name));
  if (add) form.set("autoAddToVectorStore", String(add));
  const response = await fetch(`${platform.url}/external/agent-files/upload`, {
    method: "POST",
    headers: { "Agent-Secret-Key": key },
    body: form,
  });
  // Tests read properties of any response.
  // oxlint-disable-next-line typescript/no-explicit-any
  return { status: response.status, body: (await response.json()) as any };
}

const added = (fixture: TestPlatform, id: string) => fixture.call("PUT", `agent-files/${id}/add-to-assistant`);

async function ask(fixture: TestPlatform) {
  const id = await fixture.open();
  return (await fixture.call("POST", `conversations/${id}/messages`, { message: question })).body;
}

describe("a file", () => {
  test("is taken in, and not answered from until it is added", async () => {
    const fixture = await startTestPlatform();
    const taken = await upload(fixture, "lamps.txt", text);
    expect(taken).toMatchObject({
      status: 200,
      body: { fileName: "lamps.txt", isUploadedToVectorStore: false, vectorStoreUploadStatus: null },
    });
    expect(agentFile.exact.safeParse(taken.body).success).toBe(true);
    expect((await ask(fixture)).message).toBe("I do not know that.");

    expect(await added(fixture, taken.body.id)).toMatchObject({ status: 200, body: "" });
    const answer = await ask(fixture);
    expect(answer.message).toContain("seven kilograms");
    expect(answer.fullAIResponse.fileCitations).toEqual([{ fileId: taken.body.id, filename: "lamps.txt" }]);
    const { body } = await fixture.call("GET", "agent-files/by-api-key");
    expect(body).toMatchObject({ totalItems: 1, data: [{ vectorStoreUploadStatus: "done" }] });
    expect(agentFile.exact.safeParse(body.data[0]).success).toBe(true);
  });

  test.each([
    ["lamps.md", `# Weights\n\n${text}\n\n# Other\n\nNothing of interest.`],
    ["lamps.html", `<html><body><h1>Weights</h1><p>${text}</p><script>alert(1)</script></body></html>`],
    ["lamps.pdf", pdfOf(text)],
    ["lamps.docx", docxOf("Weights", text)],
  ])("%s is answered from", async (name, bytes) => {
    const fixture = await startTestPlatform();
    const taken = await upload(fixture, name, bytes, { add: "True" });
    expect(taken.body).toMatchObject({ isUploadedToVectorStore: true, vectorStoreUploadStatus: "done" });
    const { message } = await ask(fixture);
    expect(message).toContain("seven kilograms");
    expect(message).not.toMatch(/alert|<p>|Nothing of interest/);
  });

  test("added twice is there once", async () => {
    const fixture = await startTestPlatform();
    const { body } = await upload(fixture, "lamps.txt", text, { add: true });
    await Promise.all([added(fixture, body.id), added(fixture, body.id), added(fixture, body.id)]);
    await fixture.call("DELETE", `agent-files/${body.id}/delete-from-vector-store`);
    expect((await ask(fixture)).message).toBe("I do not know that.");
    expect((await fixture.call("GET", "agent-files/by-api-key")).body.data[0]).toMatchObject({
      isUploadedToVectorStore: false,
      vectorStoreUploadStatus: null,
    });
  });

  test("can be added without waiting", async () => {
    const fixture = await startTestPlatform();
    const { body } = await upload(fixture, "lamps.txt", text);
    expect(await fixture.call("PUT", `agent-files/${body.id}/add-to-vector-store/async`)).toMatchObject({
      status: 200,
    });
    const status = async () =>
      (await fixture.call("GET", "agent-files/by-api-key")).body.data[0].vectorStoreUploadStatus;
    await expect.poll(status).toBe("done");
  });

  test.each([
    ["picture.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0, 0, 0])],
    ["broken.pdf", "%PDF-1.4 and nothing else"],
    ["broken.docx", "PK and nothing else"],
    ["empty.txt", ""],
  ])("that cannot be read (%s) is kept, and says so", async (name, bytes) => {
    const fixture = await startTestPlatform();
    const { status, body } = await upload(fixture, name, bytes, { add: true });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { isUploadedToVectorStore: null, vectorStoreUploadStatus: "failed" },
    });
  });

  test("gone is answered from no more: one by one, or several at once", async () => {
    const fixture = await startTestPlatform();
    const ids = [];
    for (const name of ["a.txt", "b.txt", "c.txt"])
      ids.push((await upload(fixture, name, text, { add: true })).body.id as string);
    expect(await fixture.call("DELETE", `agent-files/${ids[0]}/delete`)).toMatchObject({ status: 200 });
    expect(await fixture.call("DELETE", "agent-files", { fileIds: ids })).toMatchObject({ status: 200 });
    expect((await fixture.call("GET", "agent-files/by-api-key")).body.totalItems).toBe(0);
    expect((await ask(fixture)).message).toBe("I do not know that.");
    expect(await fixture.call("DELETE", `agent-files/${ids[0]}/delete`)).toMatchObject(missing);
  });

  test("is given back as it came, for saving", async () => {
    const fixture = await startTestPlatform();
    const { body } = await upload(fixture, "../etc/<script>.html", "<b>bold</b>");
    expect(body.fileName).toBe("<script>.html");
    const response = await fetch(body.url as string, { headers: { "Agent-Secret-Key": keys.support } });
    expect(await response.text()).toBe("<b>bold</b>");
    expect(response.headers.get("content-disposition")).toMatch(/^attachment/);
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
  });

  test("of another agent is not there", async () => {
    const fixture = await startTestPlatform();
    const { body } = await upload(fixture, "lamps.txt", text, { add: true });
    const at = `agent-files/${body.id}`;
    const attempts: [string, string][] = [
      ["PUT", `${at}/add-to-assistant`],
      ["PUT", `${at}/add-to-vector-store/async`],
      ["DELETE", `${at}/delete-from-vector-store`],
      ["DELETE", `${at}/delete`],
      ["GET", `${at}/content`],
    ];
    for (const [method, path] of attempts)
      expect(await fixture.call(method, path, undefined, keys.sales)).toMatchObject(missing);
    await fixture.call("DELETE", "agent-files", { fileIds: [body.id] }, keys.sales);
    expect((await ask(fixture)).message).toContain("seven kilograms");
  });
});

describe("a document that uses too much", () => {
  test.each([
    ["bomb.pdf", () => pdfBomb(45_000_000), /memory|processor time/],
    ["bomb.docx", () => docxBomb(5_000_000), /unpacks to more than 100 MB/],
    ["lying.docx", () => docxBomb(5_000_000, 10), /unpacks to more than 100 MB/],
    ["deep.docx", () => docxBomb(1_500_000), /memory|processor time/],
    ["broken.pdf", () => new Uint8Array(Buffer.from("%PDF-1.4 and nothing else")), /cannot be read/],
  ])("%s is refused with the reason, which its record keeps", async (name, made, reason) => {
    const fixture = await startTestPlatform();
    const { body } = await upload(fixture, name, made());
    expect(body).toMatchObject({ vectorStoreUploadStatus: null, vectorStoreUploadError: null });
    const refusal = await added(fixture, body.id);
    expect(refusal).toMatchObject({
      status: 400,
      body: {
        status: 400,
        name: "BAD_REQUEST",
        message: "INVALID_REQUEST",
        details: [{ path: "file", message: expect.stringMatching(reason) }],
      },
    });
    const { data } = (await fixture.call("GET", "agent-files/by-api-key")).body;
    expect(data[0]).toMatchObject({
      isUploadedToVectorStore: null,
      vectorStoreUploadStatus: "failed",
      vectorStoreUploadError: expect.stringMatching(reason),
    });
    expect(agentFile.exact.safeParse(data[0]).success).toBe(true);
  });

  test("is kept with the reason when it is added with its upload", async () => {
    const fixture = await startTestPlatform();
    expect(await upload(fixture, "broken.pdf", "%PDF-1.4 and nothing else", { add: true })).toMatchObject({
      status: 200,
      body: {
        vectorStoreUploadStatus: "failed",
        vectorStoreUploadError: expect.stringMatching(/cannot be read/),
      },
    });
  });

  test("waits with few others; more are refused for now, and nothing of them has changed", async () => {
    const fixture = await startTestPlatform({ documents: { processes: 1, queue: 1, cpuMs: 4_000, memoryMb: 2_048 } });
    const bomb = await upload(fixture, "bomb.pdf", pdfBomb(20_000_000));
    const [waiting, refused] = [await upload(fixture, "a.txt", text), await upload(fixture, "b.txt", text)];
    const exploding = added(fixture, bomb.body.id);
    const status = async (id: string) =>
      (await fixture.call("GET", "agent-files/by-api-key")).body.data.find((file: { id: string }) => file.id === id)
        .vectorStoreUploadStatus;
    await expect.poll(() => status(bomb.body.id)).toBe("processing");
    const later = added(fixture, waiting.body.id);
    await expect.poll(() => status(waiting.body.id)).toBe("processing");
    const busy = await added(fixture, refused.body.id);
    expect(busy).toMatchObject({ status: 429, body: { name: "TOO_MANY_REQUESTS_ERROR" } });
    expect(Number(busy.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await upload(fixture, "c.txt", text, { add: true })).toMatchObject({ status: 429 });
    expect(await status(refused.body.id)).toBeNull();
    expect(await exploding).toMatchObject({ status: 400 });
    expect(await later).toMatchObject({ status: 200 });
    expect(await added(fixture, refused.body.id)).toMatchObject({ status: 200 });
  });
});

test.each([
  ["no multipart", "text/plain", "hello"],
  ["no file", "application/x-www-form-urlencoded", "a=b"],
  ["a broken form", "multipart/form-data; boundary=x", "--x\r\nnonsense"],
])("an upload with %s is refused", async (_, type, body) => {
  const { platform } = await startTestPlatform();
  const response = await fetch(`${platform.url}/external/agent-files/upload`, {
    method: "POST",
    headers: { "Agent-Secret-Key": keys.support, "content-type": type },
    body,
  });
  expect(response.status).toBe(400);
});

test.each([
  ["two files", "file", ["a.txt", "b.txt"], "true"],
  ["another word than true or false", "autoAddToVectorStore", ["a.txt"], "yes"],
])("an upload with %s is refused, and the field is named", async (_, path, files, add) => {
  const { platform, call } = await startTestPlatform();
  const form = new FormData();
  for (const name of files) form.append("file", new File([text], name));
  form.set("autoAddToVectorStore", add);
  const response = await fetch(`${platform.url}/external/agent-files/upload`, {
    method: "POST",
    headers: { "Agent-Secret-Key": keys.support },
    body: form,
  });
  expect([response.status, await response.json()]).toMatchObject([400, { details: [{ path }] }]);
  expect((await call("GET", "agent-files/by-api-key")).body).toMatchObject({ totalItems: 0 });
});

test("an upload beyond the limit is refused", async () => {
  const fixture = await startTestPlatform();
  expect(await upload(fixture, "large.txt", "x".repeat(20 * 1024 * 1024 + 1))).toMatchObject({ status: 413 });
});

test("files and what was added outlive a restart", async () => {
  const folder = newFolder();
  const file = join(folder, "platform.db");
  const first = await startTestPlatform({ file });
  const { body } = await upload(first, "lamps.txt", text, { add: true });
  await first.platform.close();
  const second = await startTestPlatform({ file });
  expect((await ask(second)).fullAIResponse.fileCitations).toEqual([{ fileId: body.id, filename: "lamps.txt" }]);
});
