// How records are read: what is needed, what is dropped, what passes through.

import { describe, expect, test } from "vitest";
import * as z from "zod";
import { createUserRequest, responseOn, startRequest } from "../../src/wire/conversation.ts";
import { badRequest, failureReason, forbidden, once, pageOf, pageQuery, read, record } from "../../src/wire/record.ts";
import { escalationSkill, voiceSkill } from "../../src/wire/skill.ts";

const thing = record("thing", { id: z.string() }, { size: z.number() }, { tags: z.array(z.string()) });

function reading(input: unknown) {
  const dropped: string[] = [];
  const result = read(thing.read, input, (name, field) => dropped.push(`${name}.${field}`));
  return { dropped, result };
}

describe("a record", () => {
  test("lets unknown fields pass", () => {
    const input = { id: "1", size: 2, tags: ["a"], colour: { red: 1 } };
    expect(reading(input)).toEqual({ dropped: [], result: { ok: true, value: input } });
  });

  test("does without what is only promised, and without a null", () => {
    expect(reading({ id: "1", tags: null })).toMatchObject({ dropped: [], result: { ok: true } });
  });

  test("drops what has a wrong type, the promised and the optional alike", () => {
    const { dropped, result } = reading({ id: "1", size: "2", tags: [3] });
    expect(dropped).toEqual(["thing.size", "thing.tags"]);
    expect(result).toEqual({ ok: true, value: { id: "1", size: undefined, tags: undefined } });
  });

  test.each([{}, { id: 1 }, null, "thing", []])("without what is needed is an error: %j", (input) => {
    const { result } = reading(input);
    expect(result).toMatchObject({ ok: false, reason: expect.stringMatching(/^(id|body): /) });
  });

  test("when served must keep every promise", () => {
    expect(thing.exact.safeParse({ id: "1" }).success).toBe(false);
    expect(thing.exact.safeParse({ id: "1", size: 2, tags: "a" }).success).toBe(false);
    expect(thing.exact.safeParse({ id: "1", size: 2 }).success).toBe(true);
  });

  test("reports each dropped field once", () => {
    const told: string[] = [];
    const tell = once((name, field) => told.push(`${name}.${field}`));
    for (const id of ["1", "2"]) read(thing.read, { id, size: "2" }, tell);
    expect(told).toEqual(["thing.size"]);
  });
});

test("a voice skill keeps the ids whose names belong to its provider", () => {
  const skill = { systemName: "VOICE", status: "active", vSomeAssistantId: "a-1" };
  expect(read(voiceSkill.read, skill, () => {})).toEqual({ ok: true, value: skill });
});

test("an escalation skill is read with its recipients", () => {
  const escalations = [
    {
      topic: "refund",
      escalationPrompt: "when money is asked back",
      autoChangeConversationMode: true,
      response: "A colleague will write.",
      recipients: [{ channel: "sms", value: "+15550100" }],
    },
  ];
  const skill = { systemName: "ESCALATION", status: "active", escalations };
  expect(escalationSkill.exact.safeParse(skill).success).toBe(true);
  const broken = {
    ...skill,
    escalations: [{ ...escalations[0], recipients: [{ channel: "pigeon", value: "" }] }],
  };
  expect(escalationSkill.exact.safeParse(broken).success).toBe(false);
});

describe("a start request", () => {
  const common = { firstName: "Jo", lastName: "Doe" };
  const email = {
    ...common,
    channel: "email",
    email: "jo@acme.test",
    emailSubject: "S",
    emailIntroduction: "I",
  };
  const sms = { ...common, channel: "sms", phoneNumber: "+15550100", smsIntroduction: "I" };
  const voice = { ...common, channel: "voice", phoneNumber: "+15550100", firstMessage: "Hi" };

  test.each([email, sms, voice, { ...sms, whatever: 1, resetConversation: true }])("is accepted: %j", (body) => {
    expect(startRequest.safeParse(body).success).toBe(true);
  });

  test.each([
    common,
    { ...email, channel: "api" },
    { ...email, email: undefined },
    { ...email, emailSubject: undefined },
    { ...sms, smsIntroduction: {} },
    { ...voice, firstMessage: undefined, voiceIntroduction: "Hi" },
    { ...sms, resetConversation: "yes" },
  ])("is not accepted: %j", (body) => {
    expect(startRequest.safeParse(body).success).toBe(false);
  });
});

test("a reply of an asynchronous question is read although one of its fields deviates", () => {
  const message = { id: "a-1", message: "Yes.", senderRole: "assistant", source: 7, createdAt: "2026-11-20T10:00:00Z" };
  const dropped: string[] = [];
  const tell = (name: string, field: string) => void dropped.push(`${name}.${field}`);
  const result = read(responseOn.read, { status: "completed", message, error: null }, tell);
  expect(result).toMatchObject({ ok: true, value: { status: "completed", message: { id: "a-1", message: "Yes." } } });
  expect(dropped).toEqual(["message.source"]);
  expect(responseOn.exact.safeParse({ status: "completed", message, error: null }).success).toBe(false);
  expect(read(responseOn.read, { status: "pending", message: null, error: null }, tell)).toMatchObject({ ok: true });
});

test("a new user needs something to be known by", () => {
  expect(createUserRequest.safeParse({ firstName: "Jo", lastName: "Doe" }).success).toBe(false);
  expect(createUserRequest.safeParse({ firstName: "Jo", lastName: "Doe", fkId: "1" }).success).toBe(true);
});

describe("a page", () => {
  test("knows its neighbours", () => {
    expect(pageOf(["c"], 2, 2, 3)).toEqual({
      currentPage: 2,
      pageSize: 2,
      totalItems: 3,
      totalPages: 2,
      hasNextPage: false,
      hasPreviousPage: true,
      data: ["c"],
    });
    expect(pageOf([], 1, 20, 0)).toMatchObject({ totalPages: 0, hasNextPage: false, hasPreviousPage: false });
  });

  test("is chosen by a query, with defaults and a limit", () => {
    expect(pageQuery.parse({})).toMatchObject({ page: 1, pageSize: 20, orderDirection: "DESC" });
    expect(pageQuery.parse({ page: "3", pageSize: "5000" })).toMatchObject({ page: 3, pageSize: 100 });
    expect(pageQuery.safeParse({ page: "0" }).success).toBe(false);
    expect(pageQuery.safeParse({ orderDirection: "UP" }).success).toBe(false);
  });
});

test("an error body is quoted when it can be read", () => {
  expect(failureReason(forbidden)).toBe("FORBIDDEN_ERROR: INVALID_CREDENTIALS");
  expect(failureReason(badRequest([{ path: "a", message: "b" }]))).toBe("BAD_REQUEST: INVALID_REQUEST (a)");
  expect(failureReason({ name: {}, message: "Internal Server Error" })).toBe("Internal Server Error");
  const deep: unknown = JSON.parse(`${"[".repeat(200_000)}${"]".repeat(200_000)}`);
  expect(failureReason({ message: deep, errors: "no", details: [{ loc: ["body", deep, 0] }] })).toBe("no (body.0)");
  for (const unreadable of [undefined, null, "<html>", 5, []]) expect(failureReason(unreadable)).toBe("");
});
