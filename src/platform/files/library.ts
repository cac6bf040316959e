// The agent's documents: taken in, read, searched, removed. A file whose reading was cut off is read again at the next
// start.

import type { Clock } from "bridgehead/contract";
import { passagesOf } from "../knowledge.ts";
import { newUuid } from "../names.ts";
import type { FileRow } from "../store/files.ts";
import type { PlatformStore } from "../store/store.ts";
import { readDocument } from "./reading.ts";

export interface Library {
  /** Stores a document; its id. */
  take(agentId: string, name: string, mediaType: string, bytes: Uint8Array): Promise<FileRow>;
  /** Makes it searchable. Resolves when it is, or when it turned out to be unreadable (`failed`). */
  add(file: FileRow): Promise<void>;
  /** Marks it `processing` and goes on in the background. */
  addLater(file: FileRow): Promise<void>;
  /** The agent answers from it no more; the document stays. */
  withdraw(file: FileRow): Promise<void>;
  remove(files: readonly FileRow[]): Promise<void>;
  /** Reads what an earlier process left half read. */
  resume(): Promise<void>;
  /** Resolves when nothing is being read. */
  settled(): Promise<void>;
}

export function createLibrary(store: PlatformStore, clock: Clock, signal: AbortSignal): Library {
  const { commits, files, passages } = store;
  const reading = new Map<string, Promise<void>>();

  async function read(file: FileRow): Promise<void> {
    const bytes = files.bytes(file.id);
    if (!bytes) return;
    const document = await readDocument(file.name, bytes, signal);
    // On the way down it stays `processing`, for the next start.
    if (signal.aborted) return;
    await commits.write(() => {
      // Removed or withdrawn while it was read.
      if (files.byId(file.agent_id, file.id)?.status !== "processing") return;
      if (!document.ok) return files.setStatus(file.id, "failed", document.reason, null);
      const found = passagesOf(undefined, document.text, file.name);
      passages.addFile(file.id, file.agent_id, found);
      files.setStatus(file.id, "done", null, clock.now());
    });
  }

  async function begin(file: FileRow): Promise<void> {
    await commits.write(() => {
      passages.removeFile(file.id);
      files.setStatus(file.id, "processing", null, null);
    });
  }

  /** One reading of a file at a time: whoever comes meanwhile waits for it. */
  function readOnce(file: FileRow): Promise<void> {
    const running = reading.get(file.id);
    if (running) return running;
    const done = read(file).finally(() => reading.delete(file.id));
    reading.set(file.id, done);
    return done;
  }

  return {
    async take(agentId, name, mediaType, bytes) {
      const now = clock.now();
      const row = { id: newUuid(now), agent_id: agentId, name, media_type: mediaType, created_at: now };
      await commits.write(() => files.insert(row, bytes));
      return { ...row, size: bytes.byteLength, status: null, reason: null, added_at: null };
    },
    async add(file) {
      if (!reading.has(file.id)) await begin(file);
      await readOnce(file);
    },
    async addLater(file) {
      if (!reading.has(file.id)) await begin(file);
      void readOnce(file).catch(() => undefined); // still `processing`: the next start reads it
    },
    withdraw: (file) =>
      commits.write(() => {
        passages.removeFile(file.id);
        files.setStatus(file.id, null, null, null);
      }),
    remove: (removed) =>
      commits.write(() => {
        for (const { id } of removed) {
          passages.removeFile(id);
          files.remove(id);
        }
      }),
    async resume() {
      await Promise.all(files.processing().map(readOnce));
    },
    async settled() {
      while (reading.size > 0) await Promise.allSettled(reading.values());
    },
  };
}
