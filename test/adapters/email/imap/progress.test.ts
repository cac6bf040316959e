// The cursor advances over handled mail only, in any order in which mail is handled.

import { cursor } from "bridgehead/contract";
import * as fc from "fast-check";
import type { ImapFlow } from "imapflow";
import { describe, expect, it } from "vitest";
import { batchesOf } from "../../../../adapters/email/imap/batches.ts";
import {
  arrivedSince,
  listOnly,
  marker,
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

/** A mailbox of these UIDs that records the sets in its commands. */
function mailboxOf(uids: readonly number[]) {
  const sets: string[] = [];
  const answered = (set: string) => {
    sets.push(set);
    const ranges = set.split(",").map((range) => range.split(":").map(Number));
    return uids.filter((uid) => ranges.some(([from = 0, to = from]) => uid >= from && uid <= to));
  };
  const client = {
    mailbox: { path: "INBOX", uidValidity: 7n, exists: uids.length },
    usable: true,
    capabilities: new Map([["MOVE", true]]),
    fetchAll: (set: string) => Promise.resolve(answered(set).map((uid) => ({ uid }))),
    messageFlagsAdd: (set: string) => Promise.resolve(answered(set).length > 0),
    messageMove: (set: string) => Promise.resolve(answered(set).length > 0),
  };
  return { client: client as unknown as ImapFlow, sets };
}

describe("UIDs with gaps", () => {
  const settings = { with: "flag", keyword: "$B", folder: "Handled" } as const;

  it("are not enumerated to mark the rest", async () => {
    const { client, sets } = mailboxOf([11, 4_000_000_000, 4_000_000_001]);
    const marked: number[][] = [];
    const mark = async (_: ImapFlow, uids: readonly number[]) => void marked.push([...uids]);
    await markRest(client, mark, { ...start, uid: 4_000_000_000, marked: 10 }, { mark: settings }, "m");
    expect([sets, marked]).toEqual([["11:4000000000"], [[11, 4_000_000_000]]]);
  });

  // Dovecot refuses an argument of more than 64 kB.
  const uids = Array.from({ length: 3000 }, (_, at) => 1_000_000_001 + 2 * at);
  it.each(["list", "flag", "move"] as const)("fit into the lines of several commands: %s", async (command) => {
    const { client, sets } = mailboxOf(uids);
    const warned: string[] = [];
    const quiet = () => undefined;
    const log = { debug: quiet, info: quiet, warn: (_: object, text: string) => void warned.push(text), error: quiet };
    if (command === "list") expect((await listOnly(client, uids)).map(({ uid }) => uid)).toEqual(uids);
    else await marker({ ...settings, with: command }, log)(client, uids, "m");
    expect(sets.length).toBeGreaterThan(1);
    expect(sets.filter((set) => set.length > 8000)).toEqual([]);
    expect(sets.join(",")).toBe(uids.join(","));
    expect(warned).toEqual([]);
  });
});

describe("a search of a very large mailbox", () => {
  it("is cut into short responses, and misses none when messages are expunged meanwhile", async () => {
    let uids = Array.from({ length: 130_000 }, (_, at) => 4_000_000_000 + at);
    const responses: number[] = [];
    const mailbox = { path: "INBOX", uidValidity: 7n, exists: uids.length };
    const search = async ({ seq = "" }: { seq?: string }) => {
      const [from = 0, to = 0] = seq.split(":").map(Number);
      const found = uids.slice(from - 1, to);
      responses.push(found.length * 11);
      // The oldest 100 are expunged, so all others count down.
      uids = uids.slice(100);
      mailbox.exists = uids.length;
      return found;
    };
    const client = { usable: true, mailbox, search } as unknown as ImapFlow;
    const found = await arrivedSince(client, 0);
    expect(found).toEqual([...found].sort((a, b) => a - b));
    const known = new Set(found);
    expect(uids.filter((uid) => !known.has(uid))).toEqual([]);
    expect(Math.max(...responses)).toBeLessThan(1_000_000);
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

  it("puts messages on which connections have ended behind the others, each alone", () => {
    const ends: Record<number, number> = { 2: 5, 3: 1 };
    const batches = batchesOf(listed(1, 2, 3, 4), ({ uid }) => ends[uid] ?? 0);
    expect(batches.map((batch) => [batch.listed.map(({ uid }) => uid), batch.alone ?? false])).toEqual([
      [[1, 4], false],
      [[3], true],
      [[2], true],
    ]);
  });
});
