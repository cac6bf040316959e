// Bodies that are wrong, of every operation that takes one: which field is named, and how the rest is refused.

import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import * as z from "zod";
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
} from "../../support/platform/tenants.ts";

const taking = operationNames.filter(hasBody);

/** The fields of a request with their types; of several forms, those of the one that `right` is. */
function fieldsOf(schema: z.ZodType | undefined, right: object): [string, z.ZodType][] {
  if (schema instanceof z.ZodDiscriminatedUnion) {
    const option = schema.options.find((each) => (each as z.ZodType).safeParse(right).success);
    return fieldsOf(option as z.ZodType, right);
  }
  return schema instanceof z.ZodObject ? Object.entries<z.ZodType>(schema.shape) : [];
}

/** Values of every other type than this one. */
function wrongFor(type: z.ZodType): unknown[] {
  const bare = type instanceof z.ZodOptional ? (type.unwrap() as z.ZodType) : type;
  const kinds: [abstract: boolean, value: unknown][] = [
    [bare instanceof z.ZodString, "no such value"],
    [bare instanceof z.ZodNumber, 7],
    [bare instanceof z.ZodBoolean, true],
    [bare instanceof z.ZodArray, []],
    [bare instanceof z.ZodRecord || bare instanceof z.ZodObject, {}],
    [false, null],
  ];
  const wrong = kinds.filter(([own]) => !own).map(([, value]) => value);
  if (bare instanceof z.ZodArray) wrong.push([7], [null], [[]]);
  return wrong;
}

async function prepared() {
  const grounds = await startGrounds();
  return { grounds, things: await furnish(grounds, "own") };
}
type Prepared = Awaited<ReturnType<typeof prepared>>;

const say = (
  { grounds, things }: Prepared,
  name: OperationName,
  body: unknown,
  headers: Parameters<Grounds["ask"]>[0]["headers"] = {},
) =>
  grounds.ask({
    method: operations[name].method,
    path: pathOf(
      name,
      namedBy(name).map((thing) => things[thing]),
    ),
    headers: { ...credential("agent", "own"), ...headers },
    body,
  });

const detailsOf = (text: string) => (JSON.parse(text) as { details: { path: string; message: string }[] }).details;

test.each(taking)("%s names the field that has another type", async (name) => {
  const ready = await prepared();
  const right = hasBody(name) ? bodies[name](ready.things) : {};
  const fields = fieldsOf(operations[name].body, right);
  expect(fields.length).toBeGreaterThan(0);
  for (const [field, type] of fields)
    for (const value of wrongFor(type)) {
      const answered = await say(ready, name, { ...right, [field]: value });
      expect([field, value, answered.status, formProblem(answered)]).toEqual([field, value, 400, null]);
      const [first] = detailsOf(answered.text);
      expect([field, value, first?.path.split(".")[0]]).toEqual([field, value, field]);
    }
  expect(ready.grounds.errors).toEqual([]);
});

const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

describe.each(taking)("%s", (name) => {
  test("refuses what is no JSON, and says why", async () => {
    const ready = await prepared();
    const right = JSON.stringify(hasBody(name) ? bodies[name](ready.things) : {});
    const within = (json: string) => right.replace(/\}$/, `,"customData":{"a":${json}}}`);
    const cases: [string | Uint8Array, string, { [name: string]: string }?][] = [
      [right.slice(0, -1), "not JSON"],
      [`${right}{}`, "not JSON"],
      [within("NaN"), "not JSON"],
      [within("'a'"), "not JSON"],
      ["a=b&c=d", "not JSON", { "content-type": "application/x-www-form-urlencoded" }],
      [Buffer.from(right, "utf16le"), "not JSON"],
      [Buffer.from(within('"ü"'), "latin1"), "not UTF-8"],
      [gzipSync(right), "content-encoding", { "content-encoding": "gzip" }],
      [right, "content-encoding", { "content-encoding": "br" }],
      [within(deep(200)), "nested too deeply"],
      [within(deep(20_000)), "nested too deeply"],
      [within(`[${"0,".repeat(100_000)}0]`), "too many values"],
      [`[${"[],".repeat(50_000)}[]]`, "too many values"],
    ];
    for (const [body, why, headers] of cases) {
      const answered = await say(ready, name, body, headers);
      expect([why, answered.status, formProblem(answered)]).toEqual([why, 400, null]);
      expect(detailsOf(answered.text)).toEqual([{ path: "", message: expect.stringContaining(why) }]);
    }
    expect(ready.grounds.errors).toEqual([]);
  });

  test("accepts a byte order mark, any content type, and the last of two", async () => {
    for (const [before, after, headers] of [
      ["\ufeff", "", {}],
      ["", "", { "content-type": "text/xml; charset=utf-16" }],
      ["", "", { "content-encoding": "identity" }],
      ["  \r\n\t", "\n", {}],
    ] as const) {
      const ready = await prepared();
      const right = JSON.stringify(hasBody(name) ? bodies[name](ready.things) : {});
      if (name === "sendManualMessage") await say(ready, "setConversationMode", { mode: "manual" });
      const [, first = ""] = /^\{"(\w+)":/.exec(right) ?? [];
      const doubled = right.replace("{", `{"${first}":[null],`);
      const { status } = await say(ready, name, before + doubled + after, headers);
      expect(status).toBe(operations[name].answer.status);
    }
  });
});

test("a thousand mistakes are named in part", async () => {
  const ready = await prepared();
  const files = Array<number>(9_000).fill(7);
  const answered = await say(ready, "sendMessage", { message: "a", files });
  expect([answered.status, formProblem(answered)]).toEqual([400, null]);
  const details = detailsOf(answered.text);
  expect(details).toHaveLength(21);
  expect(details.at(-1)).toEqual({ path: "", message: "and 8980 more" });
});

test("names that JavaScript gives a meaning are names like others", async () => {
  const ready = await prepared();
  const given = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"toString":7}';
  const start = JSON.stringify(bodies.startConversation(ready.things)).replace(
    /\}$/,
    `,"__proto__":{"phoneNumber":"+15550100"},"customData":${given}}`,
  );
  const { status, text } = await say(ready, "startConversation", start);
  expect(status).toBe(201);
  const { conversationId: id } = JSON.parse(text) as { conversationId: string };
  const got = await ready.grounds.ask({
    method: "GET",
    path: pathOf("getConversation", [id]),
    headers: credential("agent", "own"),
  });
  const { user, metadata } = JSON.parse(got.text) as { user: object; metadata: { customData: object } };
  expect(Object.keys(user)).not.toContain("phoneNumber");
  expect(metadata.customData).toMatchObject({ constructor: { prototype: { polluted: 1 } }, toString: 7 });
  expect(Object.getOwnPropertyNames(Object.prototype)).not.toContain("polluted");
});

test("half a character comes back as it was kept", async () => {
  const ready = await prepared();
  const made = await say(ready, "createUser", '{"firstName":"a\\ud800b","lastName":"\\u0000","fkId":"halves"}');
  expect(made.status).toBe(201);
  const user = JSON.parse(made.text) as { id: string; firstName: string };
  expect(user).toMatchObject({ firstName: "a\ufffdb", lastName: "\u0000" });
  const path = pathOf("getUser", [user.id]);
  const got = await ready.grounds.ask({ method: "GET", path, headers: credential("agent", "own") });
  expect(JSON.parse(got.text)).toEqual(user);
});

describe("a form", () => {
  const upload = (ready: Prepared, body: string, type: string) =>
    say(ready, "uploadFile", body, { "content-type": type });
  const part = (disposition: string, text = "Lamps") =>
    `--b\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${text}\r\n`;

  test.each([
    ["of another type", JSON.stringify({ file: "a" }), "application/json"],
    ["without a boundary", part('name="file"; filename="a.txt"'), "multipart/form-data"],
    ["with another boundary", part('name="file"; filename="a.txt"'), "multipart/form-data; boundary=c"],
    ["without an end", part('name="file"; filename="a.txt"'), "multipart/form-data; boundary=b"],
    ["with nothing in it", "--b--\r\n", "multipart/form-data; boundary=b"],
    ["whose file is a text", `${part('name="file"')}--b--\r\n`, "multipart/form-data; boundary=b"],
    [
      "whose file has another name",
      `${part('name="document"; filename="a"')}--b--\r\n`,
      "multipart/form-data; boundary=b",
    ],
    ["of letters", "file=a", "application/x-www-form-urlencoded"],
    ["that is empty", "", "multipart/form-data; boundary=b"],
  ])("%s is refused", async (_what, body, type) => {
    const ready = await prepared();
    const answered = await upload(ready, body, type);
    expect([answered.status, formProblem(answered)]).toEqual([400, null]);
    expect(ready.grounds.errors).toEqual([]);
  });

  test("of thousands of parts is still one file, and others are served", async () => {
    const ready = await prepared();
    const parts = part('name="x"', "y").repeat(20_000);
    const body = `${parts}${part('name="file"; filename="a.txt"')}--b--\r\n`;
    const answered = await upload(ready, body, "multipart/form-data; boundary=b");
    expect(answered.status).toBe(200);
    expect(await say(ready, "getAgent", undefined)).toMatchObject({ status: 200 });
  });
});
