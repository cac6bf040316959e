// Random requests: the platform responds in the documented form, keeps running, and logs no error.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import * as z from "zod";
import {
  type Asked,
  bodies,
  formProblem,
  furnish,
  hasBody,
  keys,
  namedBy,
  type OperationName,
  operationNames,
  operations,
  organizationKeys,
  pathOf,
  startGrounds,
  type Thing,
  type Things,
} from "../../support/platform/tenants.ts";

// Random requests to any operation: nearly right ones, with a field, an id, a query or a header that is not, and bodies
// that are nothing at all. As plans, so that what fast-check prints of a failure can be read and repeated.

interface Plan {
  readonly operation: OperationName;
  /** For each path parameter: the valid id, or this text, percent-encoded unless it is marked as encoded. */
  readonly ids: readonly (Thing | { readonly text: string } | { readonly encoded: string })[];
  readonly query: readonly (readonly [string, string])[];
  readonly body: Body;
  readonly headers: readonly (readonly [string, string])[];
  readonly key: "right" | "wrong";
}
type Body =
  | { readonly kind: "fields"; readonly over: { readonly [field: string]: unknown } }
  | { readonly kind: "json"; readonly value: unknown }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "bytes"; readonly bytes: readonly number[] }
  | { readonly kind: "none" };

/** With a key of its own, as only a text can have it. */
const prototypes: unknown[] = [
  '{"__proto__":{"polluted":"yes"}}',
  '{"constructor":{"prototype":{"polluted":"yes"}}}',
  '{"toString":1,"hasOwnProperty":null,"valueOf":"x","length":-1}',
].map((text) => JSON.parse(text) as unknown);

const nested = (depth: number): unknown => {
  let value: unknown = "deep";
  for (let n = 0; n < depth; n += 1) value = n % 2 ? [value] : { a: value };
  return value;
};

const texts = fc.oneof(
  fc.string({ unit: "binary", maxLength: 30 }),
  fc.string({ unit: "grapheme", maxLength: 30 }),
  fc.constantFrom(
    "",
    " ",
    "\u0000",
    "a\u0000b",
    "\ud800",
    "\udfff\ud800",
    "\ufffe\uffff",
    "\u202e\u200b",
    "😀".repeat(300),
    "x".repeat(10_000),
    "'; DROP TABLE message; --",
    '" OR "" = "',
    'a AND (b* NEAR c) NOT "d',
    "%00%0d%0a",
    "\r\nX-Injected: 1\r\n\r\n",
    "../../etc/passwd",
    "..\\..\\windows",
    "__proto__",
    "constructor",
    "${7*7}{{7*7}}",
    "NaN",
    "Infinity",
    "-1",
    "1e309",
    "+15550100",
    "jo@example.test",
    "0f6c3c1e-0000-4e0b-9c39-0d3f5c1b2a10",
    "2026-02-30T25:61:00Z",
    "https://127.0.0.1:9/",
  ),
);
const values: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: texts },
  {
    weight: 2,
    arbitrary: fc.constantFrom<unknown>(0, -0, -1, 1.5, 2 ** 53, -(2 ** 63), 1e308, 5e-324, true, false, null),
  },
  { weight: 1, arbitrary: fc.constantFrom<unknown>([], {}, [null], [[]], ...prototypes) },
  { weight: 1, arbitrary: fc.constantFrom(5, 99, 101, 3_000).map(nested) },
  { weight: 1, arbitrary: fc.object({ maxDepth: 3, maxKeys: 4 }) },
  { weight: 1, arbitrary: fc.array(texts, { maxLength: 4 }) },
  { weight: 1, arbitrary: fc.array(fc.record({ fileName: texts, storagePath: texts }), { maxLength: 12 }) },
);

/** The names of an operation's own fields, from its schema, and some of others. */
function fieldsOf(schema: z.ZodType | undefined): string[] {
  if (schema instanceof z.ZodObject) return Object.keys(schema.shape);
  if (schema instanceof z.ZodDiscriminatedUnion)
    return schema.options.flatMap((option) => fieldsOf(option as z.ZodType));
  return [];
}
const anyField = ["id", "agentId", "conversationUserId", "__proto__", "constructor", "", "a.b", "$where"];

/** What a request gets wrong, apart from its being one to this operation. */
function bodyOf(name: OperationName): fc.Arbitrary<Body> {
  const { body, method } = operations[name];
  const own = fieldsOf(body);
  const field = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...(own.length > 0 ? own : anyField)) },
    { weight: 1, arbitrary: fc.constantFrom(...anyField) },
  );
  // Uses both modes: otherwise no question is answered after the first change.
  const modes = name === "setConversationMode" ? [{ mode: "ai" }, { mode: "manual" }] : [{}];
  const whole = fc.constantFrom(...modes).map((over): Body => ({ kind: "fields", over }));
  const wrong = fc.oneof<fc.WeightedArbitrary<Body>[]>(
    {
      weight: 12,
      arbitrary: fc
        .array(fc.tuple(field, values), { minLength: 1, maxLength: 2 })
        .map((over) => ({ kind: "fields", over: fieldsOnly(over) })),
    },
    { weight: 1, arbitrary: fc.jsonValue().map((value) => ({ kind: "json", value })) },
    { weight: 1, arbitrary: fc.constantFrom(...prototypes).map((value) => ({ kind: "json", value })) },
    { weight: 1, arbitrary: fc.constantFrom(...brokenTexts).map((text) => ({ kind: "text", text })) },
    {
      weight: 1,
      arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes): Body => ({ kind: "bytes", bytes: [...bytes] })),
    },
  );
  if (body === undefined && !operations[name].upload)
    return method === "GET" ? fc.constant({ kind: "none" }) : fc.oneof(fc.constant<Body>({ kind: "none" }), wrong);
  return fc.oneof({ weight: 1, arbitrary: whole }, { weight: 4, arbitrary: wrong });
}

/** Like Object.fromEntries, but `__proto__` is a field as well. */
function fieldsOnly(entries: readonly (readonly [string, unknown])[]): { [field: string]: unknown } {
  const made = {};
  for (const [field, value] of entries)
    Object.defineProperty(made, field, { value, enumerable: true, configurable: true, writable: true });
  return made;
}

const wordsOf = (text: string): string[] => text.trim().split(/\s+/);

const brokenTexts = [
  "",
  " ",
  "{",
  '{"message":',
  '{"message":NaN}',
  '{"message":1e999,"title":-1e999}',
  '{"message":"a","message":"b","mode":"ai","mode":"manual"}',
  '\ufeff{"message":"a"}',
  '{"message":"\\ud800","title":"\\udc00"}',
  '{"message":"\\u0000"}',
  '{"message":"a"}{"message":"b"}',
  "{'message':'a'}",
  "[".repeat(50_000),
  `${'{"customData":'.repeat(20_000)}1${"}".repeat(20_000)}`,
  `[${"1,".repeat(50_000)}1]`,
  `{"files":[${"1,".repeat(30_000)}1]}`,
  "null",
  "true",
  "message=a&mode=ai",
  "<message>a</message>",
];

const queryNames = [
  "",
  ...wordsOf(`
  page pageSize orderBy orderDirection searchKeyword userId startDate endDate fkId fkUserId
  conversationUserId email phoneNumber withFeedbacksOnly __proto__ constructor page[]
  page[a]`),
];
const queryValues = fc.oneof(
  texts.map((text) => text.slice(0, 2_000)),
  fc.constantFrom("-1", "0", "1", "2", "1e309", "1e9", "1e3", "abc", "NaN", "0x10", "1,2", "ASC", "desc", "true"),
  fc.constantFrom("createdAt", "updatedAt", "2026-01-01", "+275760-09-13T00:00:00Z", "-271821-04-20T00:00:00Z"),
);
const query = fc.array(fc.tuple(fc.constantFrom(...queryNames), queryValues), { maxLength: 4 });

const headerValue = fc
  .oneof(
    fc.string({ unit: "grapheme-ascii", maxLength: 60 }),
    fc.string({
      unit: fc.integer({ min: 0x80, max: 0xff }).map((code) => String.fromCharCode(code)),
      maxLength: 20,
    }),
    fc.constantFrom("gzip", "br, gzip", "identity", "application/json", "application/json; charset=utf-16"),
    fc.constantFrom(
      "multipart/form-data",
      "multipart/form-data; boundary=b",
      "text/xml",
      "*/*",
      ";;;",
      "x".repeat(4_000),
    ),
    fc.constantFrom("bytes=0-1", 'W/"a"', "DELETE", "h2c", "0", "close", "keep-alive", "a=b; __Host-c=d"),
  )
  // oxlint-disable-next-line no-control-regex
  .map((text) => text.replace(/[\u0000-\u001f\u007f]/g, ""));
const headerNames = wordsOf(`
  content-type content-encoding accept accept-encoding range if-none-match cookie
  x-http-method-override x-forwarded-host x-forwarded-for authorization x-anything
  organization-secret-key super-admin-secret-key connection te origin if-modified-since`);
const headers = fc.array(fc.tuple(fc.constantFrom(...headerNames), headerValue), { maxLength: 3 });

/** As they are: what no encoder would make of a text. */
const encodedIds = [
  "%2e%2e",
  "%2e%2e%2f%2e%2e",
  "a%2fb",
  "a%5cb",
  "%00",
  "a%0d%0aX-Injected:%201",
  "%ff%fe",
  "%zz",
  "%",
  "%25",
  "%2525",
  "%F0%9F%98%80",
  "..",
  ".",
  "a;b=c",
  "users",
  "search",
  "states",
  "by-api-key",
  "x".repeat(10_240),
];

function idsOf(name: OperationName): fc.Arbitrary<Plan["ids"]> {
  // Reading a document takes a thread of its own, every time.
  const right = name.startsWith("addFile") ? 1 : 60;
  return fc.tuple(
    ...namedBy(name).map((thing) =>
      fc.oneof<fc.WeightedArbitrary<Plan["ids"][number]>[]>(
        { weight: right, arbitrary: fc.constant(thing) },
        {
          weight: 4,
          arbitrary: fc.constantFrom<Thing>("agent", "conversation", "user", "message", "webhook"),
        },
        { weight: 8, arbitrary: texts.map((text) => ({ text: text.slice(0, 400) })) },
        { weight: 8, arbitrary: fc.constantFrom(...encodedIds).map((encoded) => ({ encoded })) },
      ),
    ),
  );
}

/** Of an operation that finds nothing without one. */
const rightQueries: { readonly [name in OperationName]?: Plan["query"] } = {
  searchUser: [["fkId", "fk-secret-of-own"]],
};

/** One request to any operation, all of them equally often. */
const plans: fc.Arbitrary<Plan> = fc.constantFrom(...operationNames).chain((operation) =>
  fc.record({
    operation: fc.constant(operation),
    ids: idsOf(operation),
    query: fc.oneof(
      { weight: 1, arbitrary: fc.constant(rightQueries[operation] ?? []) },
      { weight: 1, arbitrary: query },
    ),
    body: bodyOf(operation),
    headers: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: headers }),
    key: fc.oneof(
      { weight: 30, arbitrary: fc.constant("right" as const) },
      { weight: 1, arbitrary: fc.constant("wrong" as const) },
    ),
  }),
);

/** The request of a plan that names `own` things by right. */
function requestOf(plan: Plan, own: Things, keys: { readonly agent: string; readonly organization: string }): Asked {
  const { operation, ids, body } = plan;
  const { method, key, upload } = operations[operation];
  const path = pathOf(
    operation,
    ids.map((id) =>
      typeof id === "string" ? own[id] : "encoded" in id ? id.encoded : encodeURIComponent(id.text.toWellFormed()),
    ),
  );
  const search = plan.query
    .map((pair) => pair.map((text) => encodeURIComponent(text.toWellFormed())).join("="))
    .join("&");
  const secret = plan.key === "right" ? keys[key] : "no key of anybody";
  return {
    method,
    path: search === "" ? path : `${path}?${search}`,
    headers: {
      "content-type": upload ? "multipart/form-data; boundary=b" : "application/json",
      ...Object.fromEntries(plan.headers),
      [key === "agent" ? "agent-secret-key" : "organization-secret-key"]: secret,
    },
    body: bytesOf(operation, body, own),
  };
}

function bytesOf(operation: OperationName, body: Body, own: Things): string | Uint8Array | undefined {
  switch (body.kind) {
    case "none":
      return undefined;
    case "text":
      return body.text;
    case "bytes":
      return new Uint8Array(body.bytes);
    case "json":
      return JSON.stringify(body.value);
    case "fields": {
      if (operations[operation].upload) return form(body.over);
      const right = hasBody(operation) ? bodies[operation](own) : {};
      return JSON.stringify(fieldsOnly([...Object.entries(right), ...Object.entries(body.over)]));
    }
  }
}

/** A form whose file has a name, a type and a part of its own, built from arbitrary fields. */
function form(over: { readonly [field: string]: unknown }): string {
  const line = (value: unknown) => ((JSON.stringify(value) as string | undefined) ?? "").slice(0, 300);
  const [name = "lamp.txt", type = "text/plain", more = ""] = Object.values(over).map(line);
  return [
    `--b\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\ncontent-type: ${type}\r\n\r\nLamps`,
    `--b\r\ncontent-disposition: form-data; name="${Object.keys(over)[0] ?? "a"}"\r\n\r\n${more}`,
    "--b--\r\n",
  ].join("\r\n");
}

/** Each is 1,000 requests to a platform of its own: a failure names its seed and the request, shrunk. */
const seeds = [11, 22, 33, 44, 55, 66, 77, 88, 99, 110];

/** The statuses that the API documents in addition to success; a foreign id may also name another object. */
const refusals = [400, 403, 404, 413];

const own = { agent: keys.own, organization: organizationKeys.own };

async function run(seed: number, tally: Map<string, number>): Promise<void> {
  const grounds = await startGrounds();
  const things = await furnish(grounds, "own");
  // What is deleted is gone for the rest of the run: it has things of its own.
  const spare = await furnish(grounds, "own", "spare");
  const property = fc.asyncProperty(plans, async (plan) => {
    const answered = await grounds.ask(requestOf(plan, plan.operation.startsWith("delete") ? spare : things, own));
    const { status, text } = answered;
    if (status >= 400) expect([status, refusals.includes(status), formProblem(answered)]).toEqual([status, true, null]);
    else if (text !== "" && String(answered.headers["content-type"]).startsWith("application/json")) JSON.parse(text);
    expect(answered.headers["x-injected"]).toBeUndefined();
    expect(grounds.errors).toEqual([]);
    note(tally, plan, status);
  });
  await fc.assert(property, { seed, numRuns: 1_000 });
  // And it still knows what is right.
  const right: Plan = {
    operation: "startConversation",
    ids: [],
    query: [],
    headers: [],
    key: "right",
    body: { kind: "fields", over: { email: "last@example.test" } },
  };
  expect(await grounds.ask(requestOf(right, things, own))).toMatchObject({ status: 201 });
  expect((await furnish(grounds, "sister")).message).not.toBe("");
  expect(({} as { polluted?: string }).polluted).toBeUndefined();
}

function note(tally: Map<string, number>, { operation }: Plan, status: number): void {
  const group = status === operations[operation].answer.status ? "done" : status >= 400 ? "refused" : "other";
  const key = `${operation} ${group}`;
  tally.set(key, (tally.get(key) ?? 0) + 1);
}

test("10,000 random requests get documented answers, and the platform continues", async () => {
  const tally = new Map<string, number>();
  for (const seed of seeds) await run(seed, tally);
  // They reach every operation, and get both through and refused.
  for (const name of operationNames)
    for (const group of ["done", "refused"])
      expect([name, group, (tally.get(`${name} ${group}`) ?? 0) > 0]).toEqual([name, group, true]);
}, 900_000);
