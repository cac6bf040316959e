// What stage accept stores: of an event, without a database, and with a cursor.

import { cursor, externalId, type InboundEvent, type MessageEvent, sessionId, wrongField } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { toRow } from "../../src/pipeline/accept/rows.ts";
import { accept, tracedBy, withoutTrace } from "../../src/pipeline/accept/stage.ts";
import { isCallQuestion, messageOf } from "../../src/pipeline/route/facts.ts";
import { takeLease } from "../../src/store/leases.ts";
import { type EventRow, readCursor } from "../../src/store/tables/events.ts";
import { openPipeline } from "../support/pipeline/pipeline.ts";
import { mail } from "../support/rows.ts";

describe("an accepted event", () => {
  it("keeps no bytes in its row", () => {
    const attachments = [{ name: "a", mediaType: "text/plain", bytes: Buffer.from("x") }];
    const row = toRow("c", mail({ text: "hello", raw: Buffer.from("raw"), attachments }), "n");
    expect(row.body).not.toMatch(/raw|attachments/);
    expect([row.raw?.bytes, row.attachments[0]?.size]).toEqual([Buffer.from("raw"), 1]);
  });

  it("counts a member that is null as absent", () => {
    const without = mail({ text: "hello" });
    const members = ["consent", "forHumans", "sender", "replyTo", "cc", "subject", "attachments", "raw", "refusal"];
    for (const name of members) {
      const given = { ...without, [name]: null } as MessageEvent;
      const { body: _, ...row } = toRow("c", given, "n");
      expect([name, row]).toEqual([name, { ...toRow("c", without, "n"), body: undefined }]);
      const message = messageOf({} as EventRow, { ...given, thread: { session: sessionId("s") } });
      expect([name, isCallQuestion(message)]).toEqual([name, true]);
    }
  });

  it("loses a trace that our own reply explains", () => {
    const handledBefore = { by: "self", cited: true, reason: "answered" } as const;
    const traced = mail({ text: "hello", handledBefore, cited: externalId("cited") });
    expect([tracedBy(traced), tracedBy(mail({ text: "hello" }))]).toEqual(["cited", null]);
    expect("handledBefore" in withoutTrace(traced)).toBe(false);
  });
});

describe("an event with a wrong field", () => {
  const attachments = [{ name: "a", mediaType: "text/plain", bytes: Buffer.from("x") }];
  const message = { ...mail({ text: "hello", cited: externalId("c"), fingerprint: "f", subject: "s" }), attachments };
  const events: Readonly<Record<string, object>> = {
    message: {
      ...message,
      thread: { answers: ["<p@x>"] },
      raw: Buffer.from("raw"),
      replyTo: { address: "r@x" },
      cc: [{ address: "c@x" }],
      via: "+1",
      hops: 1,
      notes: {},
      refusal: { code: "bot", reason: "a bot" },
      handledBefore: { reason: "a mark" },
      consent: { word: "stop", answer: "Bye" },
      forHumans: { subject: "Voicemail" },
    },
    delivery: { kind: "delivery", id: "1", about: { recipient: "a@x" }, state: "delivered" },
    session: { kind: "session", id: "1", session: "s", state: "opened", from: { address: "+1" } },
    spoken: { ...message, thread: { session: "s" } },
  };

  /** Every field of the event with its nested fields: `from`, `from.address`, `attachments[0].name`. */
  const fieldsOf = (value: object, before = ""): string[] =>
    Object.entries(value).flatMap(([key, inner]: [string, unknown]) => {
      const name = Array.isArray(value) ? `${before}[${key}]` : before === "" ? key : `${before}.${key}`;
      const isNested =
        typeof inner === "object" && inner !== null && [Object, Array].includes(inner.constructor as never);
      return isNested ? [name, ...fieldsOf(inner, name)] : [name];
    });

  /** A copy with another value of the field. */
  function withField(event: object, field: string, value: unknown): object {
    const copy = structuredClone(event);
    const path = field.split(/[.[\]]+/).filter((step) => step !== "");
    const last = path.pop() ?? "";
    let at = copy as Record<string, unknown>;
    for (const step of path) at = at[step] as Record<string, unknown>;
    at[last] = value;
    return copy;
  }

  it.each(Object.keys(events))("is named with what it must be, whichever it is (%s)", async (name) => {
    const event = events[name] ?? {};
    expect(wrongField(event)).toBeNull();
    // `about` has alternatives, which the reconciliation reads.
    const fields = fieldsOf(event).filter((field) => !field.startsWith("about."));
    expect(fields.length).toBeGreaterThanOrEqual(4);
    for (const field of fields) {
      const changed = withField(event, field, field === "hops" ? "7" : 7);
      expect([field, wrongField(changed)?.field]).toEqual([field, field]);
      const accepting = accept({ commit: async () => "stored" } as never, "chat", [changed as InboundEvent], null, "n");
      // Stored, and failed alone.
      if (/^(?:text|to|cc|replyTo|via|hops|notes|refusal|handledBefore|consent|session|state|about)\b/.test(field))
        expect(await accepting).toBe("stored");
      else
        await expect(accepting).rejects.toThrow(
          `accepting an event from channel chat: its adapter gave ${field} as number, expected`,
        );
    }
  });

  it("may be absent or null where nothing is stored of it", () => {
    const { message: event = {} } = events;
    for (const field of ["subject", "raw", "replyTo", "cc", "attachments"])
      for (const value of [undefined, null]) expect(wrongField(withField(event, field, value))).toBeNull();
    for (const field of ["cited", "fingerprint"]) expect(wrongField(withField(event, field, undefined))).toBeNull();
  });

  it("is named without its value", () => {
    const secret = { ...events["session"], state: "a secret" };
    expect(JSON.stringify(wrongField(secret))).not.toContain("secret");
    expect(wrongField(secret)).toMatchObject({
      field: "state",
      expected: expect.stringContaining("transferring") as string,
    });
    expect(wrongField({ ...events["session"], id: "" })).toMatchObject({ field: "id", given: "an empty string" });
    expect(wrongField(null)).toMatchObject({ field: "event", given: "null" });
  });
});

it("stores a cursor with the events before it, and neither of a reader that has lost its lease", async () => {
  const { db, scheduler } = await openPipeline();
  const lease = "channel:c";
  const token = (await db.tx((q) => takeLease(q, lease, "n", 60_000))) ?? 0;
  const reads = (to: string, by: number) =>
    accept(scheduler, "c", [mail({ text: to })], { cursor: cursor(to), reader: { lease, token: by } }, "n");
  const stored = () =>
    db.read(async (q) => [await readCursor(q, "c"), await q.one("SELECT COUNT(*) AS count FROM events")]);
  expect(await reads("1", token)).toMatchObject([{ duplicate: false }]);
  await expect(reads("2", token + 1)).rejects.toThrow("another node reads it now");
  expect(await stored()).toEqual(["1", { count: 1 }]);
});
