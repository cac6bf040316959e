// Files of messages: announced, uploaded and fetched by signed addresses, named by a message, read by the agent's model.

import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { message as messageRecord } from "../../../src/wire/conversation.ts";
import { keys, saying, startModel, startTestPlatform, startWith } from "../../support/platform/platform.ts";
import { rawConnection } from "../../support/platform/tenants.ts";

async function uploading() {
  let ahead = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const platform = await startTestPlatform({ clock, patience: { endAfter: 100, archiveAfter: 1e12 } });
  const id = await platform.open();
  const announce = async (fileName: string, conversation = id) =>
    (
      await platform.call("POST", `conversations/${conversation}/message-files/upload-url`, {
        fileName,
        contentType: "text/plain",
      })
    ).body as { signedUrl: string; storagePath: string };
  const upload = async (fileName: string, bytes: string) => {
    const { signedUrl, storagePath } = await announce(fileName);
    expect((await fetch(signedUrl, { method: "PUT", body: bytes })).status).toBe(200);
    return { fileName, storagePath, signedUrl };
  };
  const send = (files: object[], to = id) =>
    platform.call("POST", `conversations/${to}/messages`, { message: "refund", files });
  const messages = async (of = id) => (await platform.call("GET", `conversations/${of}/messages`)).body.messages;
  const later = (ms: number) => void (ahead += ms);
  return { ...platform, id, announce, upload, send, messages, later };
}

test("a file goes up without a key, is the message's that names it, and comes down as it was", async () => {
  const { id, upload, send, messages, call } = await uploading();
  const { storagePath } = await upload("../notes/lamp.txt", "Seven kilograms.");
  expect((await send([{ fileName: "lamp.txt", storagePath }])).status).toBe(201);
  const [question, answer] = await messages();
  expect(question.files).toMatchObject([{ fileName: "lamp.txt", size: 16, openAIFileId: expect.any(String) }]);
  expect(messageRecord.exact.safeParse(question).error).toBeUndefined();
  expect(answer).not.toHaveProperty("files");
  const path = `conversations/${id}/message-files/${question.files[0].id}/signed-url`;
  const { body } = await call("GET", path);
  expect(body.fileId).toBe(question.files[0].id);
  const fetched = await fetch(body.signedUrl);
  expect(await fetched.text()).toBe("Seven kilograms.");
  expect(fetched.headers.get("content-disposition")).toBe("attachment; filename*=UTF-8''lamp.txt");
  expect((await call("GET", path, undefined, keys.sales)).status).toBe(404);
});

describe("an address", () => {
  test("is good for a quarter of an hour", async () => {
    const { announce, later } = await uploading();
    const { signedUrl } = await announce("a.txt");
    later(14 * 60_000);
    expect((await fetch(signedUrl, { method: "PUT", body: "a" })).status).toBe(200);
    later(2 * 60_000);
    const late = await fetch(signedUrl, { method: "PUT", body: "b" });
    expect([late.status, await late.json()]).toMatchObject([403, { name: "FORBIDDEN_ERROR" }]);
  });

  test.each([
    ["another file", (url: URL) => (url.pathname = url.pathname.replace(/[0-9a-f](?=\/upload)/, "g"))],
    ["a longer time", (url: URL) => url.searchParams.set("expires", "9999999999999")],
    ["another signature", (url: URL) => url.searchParams.set("signature", "A".repeat(43))],
    ["no signature", (url: URL) => url.searchParams.delete("signature")],
    ["an odd time", (url: URL) => url.searchParams.set("expires", "NaN")],
  ])("does not open %s", async (_name, change) => {
    const { announce } = await uploading();
    const url = new URL((await announce("a.txt")).signedUrl);
    change(url);
    expect((await fetch(url, { method: "PUT", body: "x" })).status).toBe(403);
  });

  test("for uploading is not valid for downloading", async () => {
    const { upload } = await uploading();
    const { signedUrl } = await upload("a.txt", "secret");
    expect((await fetch(signedUrl.replace("/upload?", "/download?"))).status).toBe(403);
  });

  test("takes nothing more when a message has the file, and nothing too large", async () => {
    const { upload, send, announce } = await uploading();
    const file = await upload("a.txt", "first");
    expect((await fetch(file.signedUrl, { method: "PUT", body: "second" })).status).toBe(200);
    await send([file]);
    expect((await fetch(file.signedUrl, { method: "PUT", body: "third" })).status).toBe(403);
    const { signedUrl } = await announce("b.txt");
    const body = new Uint8Array(20 * 1024 * 1024 + 1);
    expect((await fetch(signedUrl, { method: "PUT", body })).status).toBe(413);
  });
});

describe("an upload without an end", () => {
  async function begin(port: number, path: string) {
    const connection = await rawConnection(port);
    onTestFinished(() => void connection.socket.destroy());
    const head = `PUT ${path} HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n`;
    await connection.send(`${head}400\r\n${"x".repeat(1024)}\r\n`);
    return connection;
  }

  test("is refused before its body is read when the address is not signed", async () => {
    const { platform } = await uploading();
    const connection = await begin(platform.port, "/message-files/x/upload?expires=9999999999999&signature=x");
    expect((await connection.answer()).status).toBe(403);
  });

  test("holds one of few places", async () => {
    const { platform, announce } = await uploading();
    const held = new URL((await announce("held.txt")).signedUrl);
    const connections = [];
    for (let n = 0; n < 16; n++) connections.push(await begin(platform.port, held.pathname + held.search));
    const { signedUrl } = await announce("more.txt");
    const put = () => fetch(signedUrl, { method: "PUT", body: "more" });
    await expect.poll(async () => (await put()).status).toBe(429);
    expect(Number((await put()).headers.get("retry-after"))).toBeGreaterThan(0);
    await connections[0]?.send("0\r\n\r\n");
    expect((await connections[0]?.answer())?.status).toBe(200);
    await expect.poll(async () => (await put()).status).toBe(200);
    connections[1]?.socket.destroy();
    await expect.poll(async () => (await Promise.all([put(), put()])).map(({ status }) => status)).toEqual([200, 200]);
  });
});

test("a message cannot name what is not there, not uploaded, another's, or another conversation's", async () => {
  const { announce, upload, send, open, messages } = await uploading();
  const { storagePath } = await announce("empty.txt");
  const used = await upload("used.txt", "x");
  const free = await upload("free.txt", "x");
  await send([used]);
  const other = await open("al@example.test");
  for (const [files, why, to] of [
    [[{ fileName: "a", storagePath: "../../etc/passwd" }], "no such file"],
    [[{ fileName: "a", storagePath }], "nothing was uploaded"],
    [[used], "another message has it"],
    [[free], "no such file", other],
    [Array(11).fill(free), "at most 10"],
  ] as const) {
    const { status, body } = await send([...files], to);
    expect([status, body.details?.[0]?.message]).toEqual([400, expect.stringContaining(why)]);
  }
  expect(await messages(other)).toEqual([]);
  expect((await send([free], "none")).status).toBe(404);
  expect((await send([free])).status).toBe(201);
});

test("so many files wait for a message, a day at most", async () => {
  const { announce, call, id, later } = await uploading();
  for (let count = 0; count < 20; count++) await announce(`${count}.txt`);
  const body = { fileName: "more.txt", contentType: "text/plain" };
  const more = async () => (await call("POST", `conversations/${id}/message-files/upload-url`, body)).status;
  expect(await more()).toBe(400);
  later(25 * 3_600_000);
  await expect.poll(more).toBe(200);
});

test("a human may send files, and they are gone with the person", async () => {
  const { upload, id, call } = await uploading();
  const file = await upload("a.txt", "x");
  await call("PUT", `conversations/${id}/mode`, { mode: "manual" });
  const said = await call("POST", `conversations/${id}/send-manual-message`, {
    message: "See.",
    files: [file],
  });
  expect(said.body.files).toMatchObject([{ fileName: "a.txt" }]);
  const path = `conversations/${id}/message-files/${said.body.files[0].id}/signed-url`;
  const { signedUrl } = (await call("GET", path)).body;
  const { conversationUserId } = (await call("GET", `conversations/${id}`)).body;
  await call("DELETE", "conversations", { conversationUserId });
  expect((await fetch(signedUrl)).status).toBe(404);
});

test("the model reads what can be read, and a failed question gives its files back", async () => {
  const model = await startModel();
  const key = "support-key-1";
  const text = `organization: { name: Acme }
agents: { support: { key: ${key}, model: { url: "${model.url}", name: tiny } } }`;
  const { call, open } = await startWith({ agents: readAgents(text, "a.yaml") });
  const id = await open("jo@people.test", key);
  const upload = async (fileName: string, bytes: string) => {
    const body = { fileName, contentType: "text/plain" };
    const answered = await call("POST", `conversations/${id}/message-files/upload-url`, body, key);
    await fetch(answered.body.signedUrl, { method: "PUT", body: bytes });
    return { fileName, storagePath: answered.body.storagePath as string };
  };
  const files = [await upload("lamp.md", "Seven kilograms."), await upload("x.bin", "\0\0")];
  const send = () => call("POST", `conversations/${id}/messages`, { message: "How heavy?", files }, key);
  model.say(saying("no", 500));
  expect((await send()).status).toBe(503);
  model.say(saying("Seven."));
  expect((await send()).body.message).toBe("Seven.");
  const told = model.asked.at(-1)?.messages[0]?.content;
  expect(told).toContain('The person sent the file "lamp.md":\nSeven kilograms.');
  expect(told).toContain('The person sent the file "x.bin":\n(not a text');
});
