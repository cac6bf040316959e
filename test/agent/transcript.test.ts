// Conversations larger than one response, read through the client over HTTP from platforms that page well, badly or not.

import { describe, expect, test } from "vitest";
import type { ReadCall } from "../../src/agent/calls.ts";
import { messageRecord, startAgentClient } from "../support/client/client.ts";
import { type Fault, json, status, text } from "../support/machine/network.ts";

type Said = ReturnType<typeof messageRecord>;

const at = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString();
/** Questions and answers in turns. */
function talk(count: number, length = 10): Said[] {
  return Array.from({ length: count }, (_, n) => {
    const asked = n % 2 === 0;
    const over = { createdAt: at(n), ...(asked ? {} : { conversationMessageId: `m-${n - 1}` }) };
    return messageRecord(`m-${n}`, asked ? "conversation_user" : "assistant", `${n} ${"x".repeat(length)}`, over);
  });
}

const serialized = (body: unknown): Fault => text(JSON.stringify(body), "application/json");

/** Serves pages of at most `most` messages in the interface's envelope, with its numbers as `count` writes them. Serializes
 *  each message once: some are huge. */
function paging(messages: readonly Said[], most = 100, count: (n: number) => unknown = Number): Fault {
  const written = messages.map((message) => JSON.stringify(message));
  return (request, response, socket) => {
    const query = new URL(request.path, "http://platform").searchParams;
    const pageSize = Math.min(Number(query.get("pageSize")), most);
    const currentPage = Number(query.get("page"));
    const data = `[${written.slice((currentPage - 1) * pageSize, currentPage * pageSize).join(",")}]`;
    const totalPages = Math.ceil(messages.length / pageSize);
    const hasNextPage = currentPage < totalPages;
    const numbers = { currentPage, pageSize, totalItems: messages.length, totalPages };
    const page = Object.fromEntries(Object.entries(numbers).map(([name, n]) => [name, count(n)]));
    const rest = JSON.stringify({ ...page, hasNextPage, hasPreviousPage: currentPage > 1 }).slice(1, -1);
    const body = `{"messages":${data},${rest},"data":${data}}`;
    text(body, "application/json")(request, response, socket);
  };
}

async function reading(fault: Fault, more: ReadCall["more"] = async () => true) {
  const { client, server, signal } = await startAgentClient();
  server.script(fault);
  const call = { signal, more };
  return {
    server,
    read: (from = 0) => client.read("c-1", from, call),
    lookUp: (text: string, known: readonly string[] = []) =>
      client.lookUp("c-1", { text, knownIds: new Set(known) }, call),
    findSaid: (text: string) => client.findHumanReply("c-1", { text, knownIds: new Set() }, call),
  };
}

const ids = (messages: readonly { readonly id: string }[]) => messages.map(({ id }) => id);
const all = (count: number) => Array.from({ length: count }, (_, n) => `m-${n}`);

describe("a conversation of several pages", () => {
  test.each([
    ["as large as we want", 100],
    ["smaller than we want", 50],
    ["of an odd size", 7],
  ])("is read in pages %s", async (_, most) => {
    const { read } = await reading(paging(talk(300), most));
    const part = await read();
    expect(ids(part.messages)).toEqual(all(300));
    expect(part).toMatchObject({ start: 0, end: 300, skipped: 0, failure: null });
  });

  test.each([100, 50, 7])("is read from a place on (pages of at most %i)", async (most) => {
    const { read, server } = await reading(paging(talk(300), most));
    const part = await read(200);
    expect(part.start).toBeLessThanOrEqual(200);
    expect(ids(part.messages)).toEqual(all(300).slice(part.start));
    expect(part.end).toBe(300);
    expect(server.received.length).toBeLessThan(45);
  });

  test("is read whole from a platform that does not page, 23 MB in one response", async () => {
    const messages = talk(2_300, 10_000);
    const { read, lookUp } = await reading(serialized({ messages }));
    const part = await read(1_000);
    expect(ids(part.messages)).toEqual(all(2_300));
    expect(part).toMatchObject({ start: 0, end: 2_300, failure: null });
    expect(await lookUp(messages[2_298]?.message ?? "")).toMatchObject({
      value: { state: "answered", answer: { replyId: "m-2299" } },
    });
    expect(await lookUp("never asked")).toEqual({ kind: "ok", value: { state: "absent" } });
  });

  test.each([
    ["knows no pages", 0, 0],
    ["has smaller pages and refuses larger ones", 50, 20],
  ])("is read from a platform that %s", async (_, most, standard) => {
    const messages = talk(90);
    const { read, lookUp } = await reading((request, response, socket) => {
      const query = new URL(request.path, "http://platform").searchParams;
      if (Number(query.get("pageSize")) > most) return status(400)(request, response, socket);
      if (most === 0) return serialized({ messages })(request, response, socket);
      query.set("pageSize", query.get("pageSize") ?? String(standard));
      query.set("page", query.get("page") ?? "1");
      return paging(messages, most)({ ...request, path: `/?${query.toString()}` }, response, socket);
    });
    for (const from of [0, 70]) expect(ids((await read(from)).messages)).toEqual(all(90));
    expect(await lookUp("88 xxxxxxxxxx")).toMatchObject({ value: { state: "answered" } });
    expect(await lookUp("never asked")).toEqual({ kind: "ok", value: { state: "absent" } });
  });

  test("is not reported as read when a later page is refused", async () => {
    const good = paging(talk(300));
    const { lookUp } = await reading((request, ...rest) =>
      (request.path.includes("page=1&") ? good : status(400))(request, ...rest),
    );
    expect(await lookUp("never asked")).toMatchObject({ kind: "refused" });
  });

  test.each([1, 40, 100])("is read from a platform that counts pages from 0 (%i messages)", async (count) => {
    const messages = talk(count);
    const { read, lookUp } = await reading((request, response, socket) => {
      const currentPage = Number(new URL(request.path, "http://platform").searchParams.get("page"));
      const data = messages.slice(currentPage * 64, currentPage * 64 + 64);
      const page = { currentPage, pageSize: 64, totalItems: count, totalPages: Math.ceil(count / 64) };
      const more = { hasNextPage: currentPage + 1 < page.totalPages, hasPreviousPage: currentPage > 0 };
      json({ data, ...page, ...more })(request, response, socket);
    });
    expect(await read()).toMatchObject({ start: 0, end: count, failure: null, messages: { length: count } });
    expect(await lookUp(messages[0]?.message ?? "")).not.toMatchObject({ value: { state: "absent" } });
  });

  test("is read in small pages where its messages are huge", async () => {
    const messages = talk(40, 3_000_000);
    const { read } = await reading(paging(messages));
    const part = await read();
    expect(ids(part.messages)).toEqual(all(40));
    expect(part.failure).toBeNull();
  });

  test("is read without a message that is longer than any response may be", async () => {
    const messages = talk(10);
    messages[4] = messageRecord("m-4", "conversation_user", "y".repeat(30_000_000), { createdAt: at(4) });
    for (const fault of [paging(messages), paging(messages, 1), serialized({ messages }), serialized(messages)]) {
      const { read, lookUp } = await reading(fault);
      const part = await read();
      expect(ids(part.messages)).toEqual(all(10).filter((id) => id !== "m-4"));
      expect(part).toMatchObject({ end: 10, skipped: 1, failure: null });
      expect(await lookUp("8 xxxxxxxxxx")).toMatchObject({ value: { state: "answered" } });
      expect(await lookUp("never asked")).toMatchObject({ value: { state: "absent" } });
      // It may be the one that cannot be read.
      expect(await lookUp("z".repeat(300_000))).toMatchObject({ kind: "unknown" });
    }
  });

  test("is kept as far as it was read when a later page fails", async () => {
    const good = paging(talk(300));
    let left = 2;
    const { read } = await reading((...request) => (left-- > 0 ? good : status(503))(...request));
    const part = await read();
    expect(ids(part.messages)).toEqual(all(128));
    expect(part).toMatchObject({ start: 0, end: 128, failure: { kind: "unknown" } });
  });

  test("is kept as far as it was read when the rate is used up", async () => {
    let left = 1;
    const { read } = await reading(paging(talk(300)), async () => left-- > 0);
    expect(await read()).toMatchObject({ end: 128, failure: { kind: "deferred" } });
  });

  test("is searched from its end, so that a new question needs two requests", async () => {
    const { lookUp, findSaid, server } = await reading(paging(talk(2_000)));
    expect(await lookUp("1998 xxxxxxxxxx")).toMatchObject({
      value: { state: "answered", answer: { questionId: "m-1998", replyId: "m-1999" } },
    });
    expect(server.received).toHaveLength(2);
    expect(await lookUp("2 xxxxxxxxxx")).toMatchObject({ value: { state: "answered" } });
    expect(await lookUp("never asked")).toMatchObject({ value: { state: "absent" } });
    expect(await findSaid("never said")).toEqual({ kind: "ok", value: null });
  });

  test("is not reported as without the question while a page cannot be read", async () => {
    const messages = talk(2_000);
    const good = paging(messages);
    const { lookUp, findSaid } = await reading((request, ...rest) =>
      (request.path.includes("page=20&") ? status(503) : good)(request, ...rest),
    );
    expect(await lookUp("never asked")).toMatchObject({ kind: "unknown" });
    expect(await findSaid("never said")).toMatchObject({ kind: "unknown" });
    expect(await lookUp("1998 xxxxxxxxxx")).toMatchObject({ value: { state: "answered" } });
  });

  test("does not take the late reply to an older question for the answer", async () => {
    const messages = [
      ...talk(200),
      messageRecord("q", "conversation_user", "New?", { createdAt: at(300) }),
      messageRecord("late", "assistant", "Old", { createdAt: at(301), conversationMessageId: "m-2" }),
    ];
    const { lookUp } = await reading(paging(messages));
    expect(await lookUp("New?")).toMatchObject({ value: { state: "pending", questionId: "q" } });
  });

  test("has the names of its files, also where the platform says little else of them", async () => {
    const files = [
      { id: "f-1", fileName: "offer.pdf" },
      { id: "f-2", fileName: "plan.png", size: "4 kB" },
    ];
    const { read } = await reading(serialized({ messages: [messageRecord("m-0", "manual_assistant", "", { files })] }));
    expect((await read()).messages).toMatchObject([{ id: "m-0", files: ["offer.pdf", "plan.png"] }]);
  });

  test("is read from a platform that returns the numbers of a page as text", async () => {
    const { read, lookUp } = await reading(paging(talk(200), 100, String));
    expect(ids((await read()).messages)).toEqual(all(200));
    expect(await lookUp("100 xxxxxxxxxx")).toMatchObject({ value: { state: "answered" } });
  });

  test("ends with a platform that always reports another page", async () => {
    const messages = talk(20);
    const page = { currentPage: 1, pageSize: 20, totalItems: 1e6, totalPages: 5e4, hasNextPage: true };
    const { read, lookUp } = await reading(json({ data: messages, ...page }));
    expect(ids((await read()).messages)).toEqual(all(20));
    expect(await lookUp("18 xxxxxxxxxx")).toMatchObject({ value: { state: "answered" } });
    expect((await lookUp("never asked")).kind).toBe("ok");
  });

  test("may have its list anywhere in the response, behind a byte order mark, in pieces of any size", async () => {
    const tricky = 'a "messages": [ { \\ } ] b \u{1f600}';
    const message = messageRecord("m-0", "conversation_user", tricky, { metadata: { messages: [[1], "]"] } });
    const body = `\ufeff${JSON.stringify({
      note: "messages",
      meta: { messages: [1, 2] },
      data: null,
      messages: [message],
    })}`;
    const { read } = await reading((_, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const bytes = Buffer.from(body);
      let sent = 0;
      const next = (): void => {
        if (sent >= bytes.length) return void response.end();
        response.write(bytes.subarray(sent, (sent += 3)), () => setImmediate(next));
      };
      next();
    });
    expect((await read()).messages).toMatchObject([{ id: "m-0", text: tricky }]);
  });

  test("is looked up in few requests on a platform that counts more messages than it has", async () => {
    const messages = talk(300);
    for (const totalItems of [301, 400, 1_000_000_000]) {
      const { lookUp, server } = await reading((request, response, socket) => {
        const page = Number(new URL(request.path, "http://platform").searchParams.get("page"));
        const data = messages.slice((page - 1) * 64, page * 64);
        const counts = { currentPage: page, pageSize: 64, totalItems, totalPages: 5 };
        json({ data, ...counts, hasNextPage: page < 5, hasPreviousPage: page > 1 })(request, response, socket);
      });
      expect(await lookUp(messages[298]?.message ?? "")).toMatchObject({ value: { state: "answered" } });
      expect(await lookUp("never asked")).toEqual({ kind: "ok", value: { state: "absent" } });
      expect(server.received.length).toBeLessThan(20);
    }
  });

  test("is given up on a platform that answers every request with the same page", async () => {
    const messages = talk(300);
    const { lookUp, server } = await reading((request, response, socket) => {
      const page = new URL(request.path, "http://platform").searchParams.get("page") === "1" ? 1 : 4;
      const data = messages.slice((page - 1) * 64, page * 64);
      const counts = { currentPage: page, pageSize: 64, totalItems: 300, totalPages: 5 };
      json({ data, ...counts, hasNextPage: true, hasPreviousPage: true })(request, response, socket);
    });
    expect(await lookUp("never asked")).toMatchObject({ kind: "unknown" });
    expect(server.received.length).toBeLessThan(20);
  });
});
