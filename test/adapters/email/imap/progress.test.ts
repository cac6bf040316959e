// The cursor advances over handled mail only, in any order in which mail is handled.

import { cursor } from "bridgehead/contract";
import * as fc from "fast-check";
import type { ImapFlow } from "imapflow";
import { describe, expect, it } from "vitest";
import { batchesOf } from "../../../../adapters/email/imap/fetch.ts";
import {
  markRest,
  type Position,
  ReadProgress,
  readPosition,
  uidSet,
  writePosition,
} from "../../../../adapters/email/imap/mailbox.ts";

const start: Position = { v: 1, mailbox: "INBOX", uidValidity: "7", uid: 10, at: 0, since: 0 };
const listed = (...uids: number[]) => uids.map((uid) => ({ uid, size: 100, arrived: uid * 1000, keywords: [] }));

describe("progress", () => {
  it("stops before a mail that is still open, and passes it later", () => {
    const steps = new ReadProgress(start);
    expect(steps.open(listed(11, 12, 14)).map((one) => one.uid)).toEqual([11, 12, 14]);
    expect(readPosition(steps.finish([11, 14]))).toMatchObject({ uid: 11, at: 11_000 });
    expect(steps.open(listed(12, 14, 15)).map((one) => one.uid)).toEqual([12, 15]);
    expect(readPosition(steps.finish([12, 15]))).toMatchObject({ uid: 15, at: 15_000 });
    expect(steps.open(listed(16))).toHaveLength(1);
  });

  it("passes what has vanished", () => {
    const steps = new ReadProgress(start);
    steps.open(listed(11, 12));
    steps.finish([12]);
    expect(steps.position.uid).toBe(10);
    expect(steps.open(listed(12))).toEqual([]);
    expect(readPosition(steps.finish([])).uid).toBe(12);
  });

  it("notes from where on marks are missing", () => {
    const steps = new ReadProgress(start);
    steps.open(listed(11, 12, 13, 14));
    expect(readPosition(steps.finish([11, 12]))).toMatchObject({ uid: 12, marked: 10 });
    steps.confirmMarks([12]);
    expect(readPosition(steps.finish([13]))).toMatchObject({ uid: 13, marked: 10 });
    steps.confirmMarks([11, 13]);
    expect(readPosition(steps.finish([14]))).toMatchObject({ uid: 14, marked: 13 });
    steps.confirmMarks([14]);
    expect(readPosition(steps.finish([]))).toMatchObject({ uid: 14, marked: 14 });
  });

  it("passes any number of mails that are stored already", () => {
    const steps = new ReadProgress(start);
    const uids = Array.from({ length: 300_000 }, (_, at) => 11 + at);
    steps.open(uids.map((uid) => ({ uid, size: 1, arrived: 0, keywords: [] })));
    expect(readPosition(steps.finish(uids))).toMatchObject({ uid: 300_010, marked: 10 });
  });

  it("marks the rest of a mailbox with gaps between its UIDs", async () => {
    const asked: string[] = [];
    const client = {
      mailbox: { path: "INBOX", uidValidity: 7n, exists: 3 },
      usable: true,
      fetchAll: (range: string) => {
        asked.push(range);
        return Promise.resolve([11, 4_000_000_000, 4_000_000_001].map((uid) => ({ uid })));
      },
    } as unknown as ImapFlow;
    const marked: number[][] = [];
    const mark = async (_: ImapFlow, uids: readonly number[]) => void marked.push([...uids]);
    const position = { ...start, uid: 4_000_000_000, marked: 10 };
    await markRest(client, mark, position, { mark: { with: "flag", keyword: "$B", folder: "" } }, "m");
    expect([asked, marked]).toEqual([["11:4000000000"], [[11, 4_000_000_000]]]);
  });

  it("never passes an open mail, and misses none", () => {
    const plan = fc.array(fc.tuple(fc.boolean(), fc.boolean()), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(plan, (fates) => {
        const steps = new ReadProgress(start);
        const all = listed(...fates.map((_, index) => 11 + index));
        const done = new Set<number>();
        for (let round = 0; round < 3; round++) {
          const open = steps.open(all.filter((one) => one.uid > steps.position.uid));
          for (const one of open) {
            expect(done.has(one.uid)).toBe(false);
            const [first, second] = fates[one.uid - 11] ?? [true, true];
            if (round === 2 || (round === 0 ? first : second)) {
              done.add(one.uid);
              steps.finish([one.uid]);
            }
            for (let uid = 11; uid <= steps.position.uid; uid++) expect(done.has(uid)).toBe(true);
          }
        }
        expect(steps.position.uid).toBe(10 + fates.length);
      }),
    );
  });
});

describe("positions, sets and batches", () => {
  it("refuses a position of another make", () => {
    expect(readPosition(writePosition(start))).toEqual(start);
    expect(() => readPosition(cursor('{"v":2,"uid":1}'))).toThrow(/stored position/);
    expect(() => readPosition(cursor("17"))).toThrow(/stored position/);
  });

  it("writes sets of UIDs shortly", () => {
    expect(uidSet([3, 1, 2, 9, 7, 8, 20])).toBe("1:3,7:9,20");
  });

  it("cuts batches by number and by size", () => {
    expect(batchesOf(listed(...Array(120).keys())).map((batch) => batch.listed.length)).toEqual([50, 50, 20]);
    const large = [1, 2, 3].map((uid) => ({ uid, size: 3_000_000, arrived: 0, keywords: [] }));
    expect(batchesOf(large).map((batch) => batch.listed.length)).toEqual([1, 1, 1]);
    expect(batchesOf([])).toEqual([]);
  });
});
