// Attachments that are fetched from the provider: in parallel to other work, again after failures and crashes, and
// never twice.

import { channel } from "node:diagnostics_channel";
import { type Attachment, externalId, finalError, type Json } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database } from "../../src/store/driver.ts";
import { endLeases } from "../../src/store/leases.ts";
import { forget } from "../../src/store/retention.ts";
import {
  mail,
  openPipeline,
  type TestPipeline,
  type TestPipelineOptions,
  testClock,
} from "../support/pipeline/pipeline.ts";

const minute = 60_000;
const picture = (ref: Json, size?: number): Attachment => ({
  name: `${JSON.stringify(ref)}.jpg`,
  mediaType: "image/jpeg",
  ref,
  ...(size === undefined ? {} : { size }),
});

/** A provider's store of media: what it holds by ref, and every request it had. */
function mediaStore(held: { [ref: string]: string | Error } = {}) {
  const asked: string[] = [];
  async function* open(ref: Json): AsyncIterable<Uint8Array> {
    const name = ref as string;
    asked.push(name);
    const bytes = held[name] ?? new Error("there is no such medium");
    if (bytes instanceof Error) throw bytes;
    for (const half of [bytes.slice(0, 2), bytes.slice(2)]) yield Buffer.from(half);
  }
  return { held, asked, open };
}

interface Kept {
  readonly bytes: string | null;
  readonly size: number | null;
  readonly attempts: number;
  /** Whether it will be tried (again). */
  readonly due: boolean;
  readonly reason: string | null;
}

async function kept(db: Database): Promise<Kept[]> {
  const rows = await db.read((q) =>
    q.all<Omit<Kept, "bytes" | "due"> & { bytes: Buffer | null; due_at: number | null }>(
      `SELECT blobs.bytes, size, attempts, due_at, reason FROM attachments LEFT JOIN blobs ON blobs.id = attachments.blob
       ORDER BY event, position`,
    ),
  );
  return rows.map(({ bytes, due_at, ...row }) => ({
    ...row,
    bytes: bytes === null ? null : Buffer.from(bytes).toString(),
    due: due_at !== null,
  }));
}

const there = (bytes: string, attempts = 1): Kept => ({
  bytes,
  size: bytes.length,
  attempts,
  due: false,
  reason: null,
});

/** The process dies and another begins on the same store. */
async function reborn(pipeline: TestPipeline, options: TestPipelineOptions): Promise<TestPipeline> {
  await pipeline.scheduler.drain(0);
  await pipeline.db.tx(endLeases);
  return openPipeline({ ...options, clock: pipeline.clock, db: pipeline.db, platform: pipeline.platform });
}

/** A fetch that never ends and ignores its signal. */
async function* endless(): AsyncIterable<Uint8Array> {
  await new Promise(() => undefined);
  yield Buffer.from("never");
}

it("fetches the bytes, while the agent is asked with the name", async () => {
  const media = mediaStore({ a: "picture", b: "sound" });
  const pipeline = await openPipeline({ open: media.open });
  const inHand: Attachment = { name: "c.txt", mediaType: "text/plain", bytes: Buffer.from("words") };
  await pipeline.arrives({ text: "look", attachments: [picture("a", 7), picture("b"), inHand] });
  expect(await kept(pipeline.db)).toEqual([there("picture"), there("sound"), there("words", 0)]);
  expect(media.asked).toEqual(["a", "b"]);
  expect(pipeline.platform.calls.filter((call) => call.startsWith("ask")).join()).toContain(".jpg");
  expect(pipeline.sent).toHaveLength(1);
});

it("holds up neither the intake nor the answer, however long it takes", async () => {
  const pipeline = await openPipeline({ open: endless });
  pipeline.sweeps();
  await pipeline.accepts("c", mail({ text: "look", attachments: [picture("a"), picture("b"), picture("c")] }));
  await expect.poll(() => pipeline.sent).toHaveLength(1);
  await expect.poll(() => pipeline.scheduler.running(), { message: "two at once" }).toBe(2);
  expect((await kept(pipeline.db)).map(({ attempts }) => attempts)).toEqual([1, 1, 0]);
});

it("tries again after failures, ever later, and gives up in the end", async () => {
  const media = mediaStore();
  const pipeline = await openPipeline({ open: media.open, clock: testClock(true) });
  await pipeline.arrives({ text: "look", attachments: [picture("a"), picture("b")] });
  const [first] = await kept(pipeline.db);
  expect(first).toEqual({
    bytes: null,
    size: null,
    attempts: 1,
    due: true,
    reason: "there is no such medium",
  });
  await pipeline.passes(1000, 500);
  expect(media.asked).toHaveLength(2);
  await pipeline.passes(2000, 500);
  expect(media.asked).toHaveLength(4);
  media.held["a"] = "late";
  await pipeline.passes(20_000, 1000);
  expect((await kept(pipeline.db))[0]).toEqual(there("late", 3));
  await pipeline.passes(36 * 60 * minute, 30 * minute);
  expect((await kept(pipeline.db))[1]).toMatchObject({ bytes: null, attempts: 10, due: false });
  expect(media.asked.filter((ref) => ref === "b")).toHaveLength(10);
  expect(pipeline.heard.filter((line) => line === "attachment download failed for good")).toHaveLength(1);
});

it("records a file that is too large or finally refused, and does not retry", async () => {
  const media = mediaStore({ a: "x".repeat(1001), b: finalError("it was taken back"), d: "d" });
  const pipeline = await openPipeline({ open: media.open });
  await pipeline.arrives({
    text: "look",
    attachments: [picture("a"), picture("b"), picture("c", 5_000), picture("d")],
  });
  await pipeline.passes(10 * minute);
  const lost = (reason: string, attempts = 1) => ({ bytes: null, attempts, due: false, reason });
  expect(await kept(pipeline.db)).toMatchObject([
    lost("it is larger than 1000 bytes"),
    lost("it was taken back"),
    lost("it is larger than 1000 bytes"),
    there("d"),
  ]);
  expect(media.asked, "what is announced as too large is not asked for").toEqual(["a", "b", "d"]);
});

it("fetches once what is announced twice", async () => {
  const media = mediaStore({ a: "picture" });
  const pipeline = await openPipeline({ open: media.open });
  const event = mail({ text: "look", attachments: [picture("a")], fingerprint: "f" });
  const copy = { ...event, id: externalId("another id") };
  await Promise.all([event, event, copy].map((one) => pipeline.accepts("c", one)));
  await pipeline.settles();
  expect(media.asked).toEqual(["a"]);
  expect(await kept(pipeline.db)).toEqual([there("picture")]);
});

it("begins again at once after a death in the middle", async () => {
  const pipeline = await openPipeline({ open: endless });
  await pipeline.accepts("c", mail({ text: "look", attachments: [picture("a")] }));
  await expect.poll(() => kept(pipeline.db)).toMatchObject([{ attempts: 1, due: true }]);
  const media = mediaStore({ a: "picture" });
  const next = await reborn(pipeline, { open: media.open });
  await next.settles();
  expect(await kept(next.db)).toEqual([there("picture", 2)]);
});

it("keeps no shutdown waiting, and is begun at once by the next process", async () => {
  const pipeline = await openPipeline({ open: endless });
  await pipeline.accepts("c", mail({ text: "look", attachments: [picture("a")] }));
  await expect.poll(() => pipeline.sent).toHaveLength(1);
  await pipeline.scheduler.drain(60_000);
  expect(await kept(pipeline.db)).toMatchObject([{ attempts: 1, due: true, reason: "interrupted" }]);
  const { clock, db, platform } = pipeline;
  const next = await openPipeline({ clock, db, platform, node: "m", open: mediaStore({ a: "picture" }).open });
  await next.settles();
  expect(await kept(db)).toEqual([there("picture", 2)]);
});

it("loses nothing when the process dies before the bytes are committed, and repeats nothing after", async () => {
  const media = mediaStore({ a: "picture" });
  let deadly = true;
  const pipeline = await openPipeline({
    open: media.open,
    // Written, and undone: what a kill before the commit leaves.
    faulty: (db) => ({
      ...db,
      tx: (work) =>
        db.tx(async (q) => {
          const done = await work(q);
          if (deadly && (await q.one("SELECT 1 FROM attachments WHERE blob IS NOT NULL")))
            throw new Error("the disk is full");
          return done;
        }),
    }),
  });
  await pipeline.accepts("c", mail({ text: "look", attachments: [picture("a")] }));
  await expect.poll(() => pipeline.heard).toContain("writing an outcome failed, retrying");
  expect(await kept(pipeline.db)).toMatchObject([{ bytes: null, due: true }]);
  deadly = false;
  const next = await reborn(pipeline, { open: media.open });
  await next.settles();
  const after = await kept(next.db);
  expect(after).toMatchObject([{ bytes: "picture", due: false }]);
  const asked = media.asked.length;
  const last = await reborn(next, { open: media.open });
  await last.settles();
  expect(media.asked).toHaveLength(asked);
  expect(await kept(last.db)).toEqual(after);
});

it("gives up an attachment that kills the process each time", async () => {
  let pipeline = await openPipeline({ open: endless });
  await pipeline.accepts("c", mail({ text: "look", attachments: [picture("a")] }));
  for (let lives = 0; lives < 12; lives++) {
    pipeline = await reborn(pipeline, { open: endless });
    await pipeline.scheduler.sweep();
  }
  expect(await kept(pipeline.db)).toMatchObject([{ due: false, reason: expect.stringMatching(/^given up/) }]);
});

it("lets one node fetch; another takes over when the claim is over, and the first one writes nothing then", async () => {
  const clock = testClock();
  const release = Promise.withResolvers<void>();
  const slow = await openPipeline({
    clock,
    async *open() {
      await release.promise;
      yield Buffer.from("stale");
    },
  });
  await slow.accepts("c", mail({ text: "look", attachments: [picture("a")] }));
  await expect.poll(() => kept(slow.db)).toMatchObject([{ attempts: 1 }]);
  const media = mediaStore({ a: "fresh" });
  const { db, platform } = slow;
  const other = await openPipeline({ clock, db, platform, node: "m", open: media.open });
  await other.scheduler.sweep();
  await other.passes(30_000, 10_000);
  expect(media.asked).toEqual([]);
  await other.passes(50_000, 10_000);
  expect(await kept(db)).toEqual([there("fresh", 2)]);
  release.resolve();
  await slow.settles();
  expect(await kept(db)).toEqual([there("fresh", 2)]);
  expect(slow.heard).toContain("lease lost");
});

it("leaves what no adapter can fetch, until one can", async () => {
  const pipeline = await openPipeline();
  await pipeline.arrives({ text: "look", attachments: [picture("a")] });
  expect(await kept(pipeline.db)).toMatchObject([{ attempts: 0, due: true }]);
  const next = await reborn(pipeline, { open: mediaStore({ a: "picture" }).open });
  await next.settles();
  expect(await kept(next.db)).toEqual([there("picture")]);
});

it("is forgotten like bytes that came along, and is not fetched after that", async () => {
  const media = mediaStore({ a: "picture" });
  const pipeline = await openPipeline({ open: media.open });
  await pipeline.arrives({ text: "look", attachments: [picture("a"), picture("b")] });
  pipeline.clock.forward(2 * minute);
  await pipeline.db.tx((q) =>
    forget(q, { rawMs: minute, eventsMs: 100 * minute }, standardTiming.upkeep.retentionRecheck),
  );
  const rows = await pipeline.db.read((q) => q.all("SELECT blob, ref, due_at FROM attachments ORDER BY position"));
  const nothing = { blob: null, ref: null, due_at: null };
  expect(rows).toEqual([nothing, nothing]);
  expect(await pipeline.db.read((q) => q.all("SELECT id FROM blobs"))).toEqual([]);
  const asked = media.asked.length;
  await pipeline.passes(60 * minute);
  expect(media.asked).toHaveLength(asked);
});

it("says before and after the commit that brings the bytes", async () => {
  const phases: unknown[] = [];
  const hear = (message: unknown) => void phases.push((message as { phase: string }).phase);
  const point = channel("bridgehead:fetch.commit");
  point.subscribe(hear);
  onTestFinished(() => {
    point.unsubscribe(hear);
  });
  const pipeline = await openPipeline({ open: mediaStore({ a: "picture" }).open });
  await pipeline.arrives({ text: "look", attachments: [picture("a")] });
  expect(phases).toEqual(["before", "after"]);
});
