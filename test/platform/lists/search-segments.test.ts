// The segments of the full-text index, which every commit adds, are merged in short transactions.

import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { personRow } from "../../../src/platform/conversations/start.ts";
import { mergeSegments } from "../../../src/platform/store/indexes.ts";
import { openDatabase, openPlatformStore } from "../../../src/platform/store/store.ts";
import { newFolder } from "../../support/resources.ts";

const agents = [{ id: "one", organizationId: "o", name: "one", keyHash: "1" }];

test("merges the segments that another process has written, and finds the same afterwards", async () => {
  const file = join(newFolder(), "platform.db");
  const writer = openPlatformStore(file, "normal");
  onTestFinished(() => writer.close());
  writer.agents.define(agents);
  for (let n = 0; n < 300; n++) writer.people.insert(personRow("one", { firstName: `Anna${n}`, lastName: "Adler" }, n));

  const store = openPlatformStore(file, "normal");
  onTestFinished(() => store.close());
  const [people] = store.indexes;
  expect(people?.segments()).toBeGreaterThan(1);
  const stop = new AbortController();
  const transactions: number[] = [];
  store.commits.onCommit(() => transactions.push(people?.segments() ?? 0));
  let sleeps = 0;
  // The first sleep delays the start, the second is the pause after a pass.
  const clock = { ...systemClock, sleep: async () => void (++sleeps === 2 && stop.abort()) };
  const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  await mergeSegments(store, { clock, log, signal: stop.signal });
  expect(log.error).not.toHaveBeenCalled();

  expect(people?.segments()).toBe(1);
  expect(transactions.length).toBeGreaterThan(1);
  const found = openDatabase(file, "normal");
  onTestFinished(() => void found.close());
  const rows = found.prepare("SELECT count(*) FROM wording WHERE wording MATCH ?").pluck();
  expect(rows.get('"Anna299"')).toBe(1);
  expect(rows.get('"adler"')).toBe(300);
});
