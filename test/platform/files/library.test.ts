// Files that are withdrawn and added again while they are being parsed.

import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { Library } from "../../../src/platform/files/library.ts";
import { DocumentReader, type ReadDocument } from "../../../src/platform/files/reading.ts";
import { openPlatformStore } from "../../../src/platform/store/store.ts";

/** Parses nothing by itself: each document is read when the test says so. */
class HeldReader extends DocumentReader {
  readonly held: ((read: ReadDocument) => void)[] = [];

  override read(): Promise<ReadDocument> {
    const { promise, resolve } = Promise.withResolvers<ReadDocument>();
    this.held.push(resolve);
    return promise;
  }
}

async function withFile() {
  const store = openPlatformStore(":memory:", "normal");
  onTestFinished(() => store.close());
  store.agents.define([{ id: "a", name: "a", organizationId: "o", keyHash: "k" }]);
  const documents = new HeldReader(new AbortController().signal);
  const library = new Library(store, systemClock, documents);
  const file = await library.take("a", "lamps.txt", "text/plain", new Uint8Array([1]));
  const read = (at: number) => documents.held[at]?.({ kind: "read", text: "The lamp weighs seven kilograms." });
  const state = () => [store.files.byId("a", file.id)?.status, store.passages.search("a", ["lamp"], 9).length];
  return { library, file, documents, read, state };
}

test("a file that is withdrawn and added again while it is parsed is searchable", async () => {
  const { library, file, read, state } = await withFile();
  expect(await library.addLater(file)).toEqual({ kind: "done" });
  await library.withdraw(file);
  const added = library.add(file);
  await expect.poll(() => state()[0]).toBe("processing");
  read(0);
  expect(await added).toEqual({ kind: "done" });
  expect(state()).toEqual(["done", 1]);
});

test("a file that is added again just when its parsing ends is parsed again", async () => {
  const { library, file, documents, read, state } = await withFile();
  await library.addLater(file);
  await library.withdraw(file);
  read(0);
  // Its result is requested to be stored, in the same transaction as the status below.
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  const added = library.add(file);
  await expect.poll(() => documents.held.length).toBe(2);
  read(1);
  expect(await added).toEqual({ kind: "done" });
  expect(state()).toEqual(["done", 1]);
  await library.idle();
});

test("a file that is withdrawn while it is parsed stays withdrawn", async () => {
  const { library, file, read, state } = await withFile();
  const added = library.add(file);
  await expect.poll(() => state()[0]).toBe("processing");
  await library.withdraw(file);
  read(0);
  expect(await added).toEqual({ kind: "done" });
  expect(state()).toEqual([null, 0]);
});
