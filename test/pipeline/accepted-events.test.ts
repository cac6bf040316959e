// What stage accept stores of an event, without a database.

import { externalId } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { toRow } from "../../src/pipeline/accept/rows.ts";
import { tracedBy, withoutTrace } from "../../src/pipeline/accept/stage.ts";
import { mail } from "../support/rows.ts";

describe("an accepted event", () => {
  it("keeps no bytes in its row", () => {
    const attachments = [{ name: "a", mediaType: "text/plain", bytes: Buffer.from("x") }];
    const row = toRow("c", mail({ text: "hello", raw: Buffer.from("raw"), attachments }), "n");
    expect(row.body).not.toMatch(/raw|attachments/);
    expect([row.raw?.bytes, row.attachments[0]?.size]).toEqual([Buffer.from("raw"), 1]);
  });

  it("loses a trace that our own reply explains", () => {
    const handledBefore = { by: "self", cited: true, reason: "answered" } as const;
    const traced = mail({ text: "hello", handledBefore, cited: externalId("cited") });
    expect([tracedBy(traced), tracedBy(mail({ text: "hello" }))]).toEqual(["cited", null]);
    expect("handledBefore" in withoutTrace(traced)).toBe(false);
  });
});
