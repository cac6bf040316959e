// What the platform's word means on each operation, and what of it is repeated in a reason.

import { describe, expect, test } from "vitest";
import { type AgentClientFixture, startAgentClient } from "../support/client/client.ts";
import { entityNotFound, type Fault, json, status, text } from "../support/machine/network.ts";

const names = { firstName: "Jo", lastName: "Doe" };
const person = { ...names, email: "jo@acme.test" };
const opening = { ...person, channel: "email", emailSubject: "S", emailIntroduction: "I" } as const;
const user = { ...names, id: "u-1", isAnonymized: false };
const past = { text: "hi", knownIds: new Set<string>() };

interface Operation {
  readonly name: string;
  readonly run: (fixture: AgentClientFixture) => Promise<object>;
  /** What the platform answers before it comes to the point. */
  readonly before?: readonly Fault[];
  /** What the interface's own 404 means. */
  readonly absent: object;
}

const operations: readonly Operation[] = [
  { name: "describe", run: ({ client, signal }) => client.describe(signal), absent: { kind: "missing" } },
  {
    name: "start",
    run: ({ client, effect }) => client.start(opening, effect()),
    absent: { kind: "deferred" },
  },
  {
    name: "create, the user",
    run: ({ client, effect }) => client.create(person, effect()),
    absent: { kind: "deferred" },
  },
  {
    name: "create, the search",
    run: ({ client, effect }) => client.create(person, effect()),
    before: [status(400)],
    absent: { kind: "refused", status: 400 },
  },
  {
    name: "create, the conversation",
    run: ({ client, effect }) => client.create(person, effect()),
    before: [json(user, 201)],
    absent: { kind: "deferred" },
  },
  {
    name: "findConversations",
    run: ({ client, signal }) => client.findConversations("jo", signal),
    absent: { kind: "ok", value: [] },
  },
  {
    name: "ask",
    run: ({ client, effect }) => client.ask("c-1", { text: "hi" }, effect()),
    absent: { kind: "missing" },
  },
  {
    name: "lookUp",
    run: ({ client, reading }) => client.lookUp("c-1", past, reading),
    absent: { kind: "missing" },
  },
  { name: "mode", run: ({ client, signal }) => client.mode("c-1", signal), absent: { kind: "missing" } },
];

describe.each(operations)("$name", ({ run, before = [], absent }) => {
  async function against(fault: Fault): Promise<object> {
    const fixture = await startAgentClient();
    fixture.server.script(...before, fault);
    const result = await run(fixture);
    expect(fixture.server.received).toHaveLength(before.length + 1);
    return result;
  }

  test("429 is a limit, with the time it names", async () => {
    expect(await against(status(429, { "retry-after": "7" }))).toEqual({
      kind: "deferred",
      reason: "HTTP 429: SOME_ERROR: SOME_MESSAGE",
      limited: true,
      retryAfterMs: 7_000,
    });
  });

  test("429 with no time worth the name is a limit without one", async () => {
    const result = await against(status(429, { "retry-after": "0" }));
    expect(result).toMatchObject({ kind: "deferred", limited: true });
    expect(result).not.toHaveProperty("retryAfterMs");
  });

  test("404 of the interface", async () => {
    expect(await against(entityNotFound)).toMatchObject(absent);
  });

  test.each([
    ["another 404", status(404)],
    ["a page with 404", text("<h1>404</h1>nginx", "text/html", 404)],
    ["a redirect", status(307, { location: "/login" })],
    ["405", status(405)],
    ["408", status(408)],
    ["425", status(425)],
  ])("%s is not the platform's word", async (_name, fault) => {
    expect(await against(fault)).toMatchObject({ kind: "deferred" });
  });
});

describe("a reason", () => {
  const saying = (name: string, message: string): Fault => json({ status: 400, name, message }, 400);

  test.each([
    ["an address", "jo.doe+x@acme.test is not valid", "<address> is not valid"],
    ["an address in brackets", 'no such user "Jo" <jo@acme.test>.', 'no such user "Jo" <address>.'],
    ["a URL's address", "Cannot GET /users/search?email=jo%40acme.test", "Cannot GET <address>"],
    ["a number", "the number +1 (555) 010-0199 is taken", "the number <number> is taken"],
    ["a URL's number", "phoneNumber=%2B15550100199 not found", "phoneNumber=<number> not found"],
    ["no more than codes", "limit of 1000 per 60 s, code 40012", "limit of 1000 per 60 s, code 40012"],
    ["several lines", "first\r\n\tsecond\u2028third\u0000", "first second third"],
  ])("with %s", async (_name, said, repeated) => {
    const { client, server, effect } = await startAgentClient();
    server.script(saying("BAD_REQUEST", said));
    expect(await client.ask("c-1", { text: "hi" }, effect())).toEqual({
      kind: "refused",
      status: 400,
      reason: `HTTP 400: BAD_REQUEST: ${repeated}`,
    });
  });

  test.each([
    [
      "a list of texts",
      { message: ["title is empty", "jo@acme.test is taken"], error: "Bad Request" },
      "title is empty; <address> is taken",
    ],
    [
      "a list of objects",
      { detail: [{ loc: ["body", "title"], msg: "field required" }] },
      "body.title: field required",
    ],
    ["an object", { error: { code: "quota", message: "the quota is used up" } }, "the quota is used up"],
    ["a problem of RFC 9457", { title: "Bad Request", detail: "the title is empty" }, "the title is empty"],
    [
      "fields by name",
      { name: "BAD_REQUEST", message: "INVALID_REQUEST", details: [{ field: "title" }, { path: "state" }, {}] },
      "BAD_REQUEST: INVALID_REQUEST (title, state)",
    ],
    ["nothing readable", { error: [[[["deep"]]]], message: 5 }, ""],
  ])("is read from %s", async (_name, body, said) => {
    const { client, server, effect } = await startAgentClient();
    server.script(json(body, 422));
    const { reason } = (await client.ask("c-1", { text: "hi" }, effect())) as { reason: string };
    expect(reason).toBe(said === "" ? "HTTP 422" : `HTTP 422: ${said}`);
  });

  test.each([
    ["https://eu.acme.test/v2/external/agents/by-api-key?a=jo%40acme.test", "https://eu.acme.test/v2/"],
    ["/login#top", "/login"],
  ])("names the address to which a redirect leads (%s)", async (location, shown) => {
    const { client, server, signal } = await startAgentClient();
    server.script(status(308, { location }));
    expect(await client.describe(signal)).toEqual({ kind: "deferred", reason: `HTTP 308: a redirect to ${shown}` });
  });

  test("is cut, and no cut leaves a part of an address", async () => {
    const { client, server, effect } = await startAgentClient();
    for (const length of [170, 175, 180, 185, 190, 300]) {
      server.script(saying("jo@acme.test", `${"word ".repeat(length / 5)}josephine.doe@acme.test`));
      const result = await client.ask("c-1", { text: "hi" }, effect());
      const { reason } = result as { reason: string };
      expect(reason).toMatch(/^HTTP 400: <address>: word word /);
      expect(reason).not.toMatch(/jo|acme/);
      expect(reason.length).toBeLessThanOrEqual(200);
    }
  });
});
