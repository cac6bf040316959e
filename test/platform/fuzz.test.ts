// Whatever is sent, the platform never breaks.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { startByEmail, startRig } from "./rig.ts";

const odd = fc.oneof(
  { weight: 3, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  fc.constantFrom(
    "'; DROP TABLE message; --",
    "\u0000",
    "\ud800",
    "%",
    "../..",
    "email",
    "sms",
    "+15550100",
    "ai",
    "manual",
  ),
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.string(), { maxLength: 3 }),
  fc.object({ maxDepth: 2, maxKeys: 4 }),
);
const names = [
  ...Object.keys(startByEmail("")),
  ..."phoneNumber smsIntroduction firstMessage context customData fkId resetConversation conversationUserId".split(
    " ",
  ),
  ..."title message mode conversationMessageId files skipEmailValidation conversationContext".split(" "),
];
const whole = fc.constantFrom(
  startByEmail("jo@example.test"),
  { firstName: "J", lastName: "D", channel: "sms", phoneNumber: "+15550100", smsIntroduction: "" },
  { message: "hi" },
  { mode: "ai" },
  {},
);
const body = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(whole, fc.dictionary(fc.constantFrom(...names), odd, { maxKeys: 5 }))
      .map(([base, over]) => ({ ...base, ...over })),
  },
  { weight: 1, arbitrary: fc.jsonValue() },
  { weight: 1, arbitrary: fc.string({ maxLength: 60 }) },
);
const query = fc
  .dictionary(
    fc.constantFrom(
      "page",
      "pageSize",
      "orderBy",
      "orderDirection",
      "searchKeyword",
      "userId",
      "startDate",
      "fkId",
      "email",
    ),
    fc.oneof(fc.string(), fc.constantFrom("1e9", "-1", "ASC", "createdAt", "2026-01-01")),
    { maxKeys: 4 },
  )
  .map((given) => new URLSearchParams(given).toString());

test("2,000 random requests never give a 500", async () => {
  const { call, open, errors } = await startRig();
  const id = await open();
  const userId = (await call("GET", `conversations/${id}`)).body.conversationUserId as string;
  const target = fc.oneof(fc.constantFrom(id, userId), fc.string({ maxLength: 8 }).map(encodeURIComponent));
  const path = fc
    .tuple(
      fc.constantFrom(
        "POST conversations/start",
        "POST conversations",
        "POST users",
        "POST conversations/:id/messages",
        "POST conversations/:id/send-manual-message",
        "PUT conversations/:id/mode",
        "GET conversations?:q",
        "GET conversations/:id/messages?:q",
        "GET conversations/:id",
        "GET users/search?:q",
        "GET users/:id",
      ),
      target,
      query,
    )
    .map(([operation, name, text]) =>
      operation
        .replace(":id", () => name || "x")
        .replace(":q", () => text)
        .split(" "),
    );
  const statuses = new Map<number, number>();
  const property = fc.asyncProperty(path, body, async ([method = "", where = ""], sent) => {
    const { status } = await call(method, where, method === "GET" ? undefined : sent);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    expect(status).toBeLessThan(500);
  });
  await fc.assert(property, { numRuns: 2_000 });
  expect(errors).toEqual([]);
  for (const status of [200, 201, 400, 404]) expect(statuses.get(status)).toBeGreaterThan(20);
});
