// The agent's documents: stored, parsed, made searchable, removed. A file whose parsing was cut off is parsed again at the
// next start.

import type { Clock } from "bridgehead/contract";
import { passagesOf } from "../knowledge.ts";
import { newUuid } from "../names.ts";
import type { FileRow } from "../store/files.ts";
import type { PlatformStore } from "../store/store.ts";
import type { DocumentReader } from "./reading.ts";

/** What became of making a file searchable. `failed`: the document cannot be read, and why. `busy`: too many are being
 *  read; nothing was changed. `gone`: the file was removed meanwhile. `stopped`: shutdown; the next start goes on. */
export type Added =
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "busy" }
  | { readonly kind: "gone" }
  | { readonly kind: "stopped" };

export interface Library {
  /** Stores a document; its id. */
  take(agentId: string, name: string, mediaType: string, bytes: Uint8Array): Promise<FileRow>;
  /** Makes it searchable. Resolves when it is, or when it turned out to be unreadable (`failed`). */
  add(file: FileRow): Promise<Added>;
  /** Marks it `processing` and parses it in the background: `done` means that this has begun. */
  addLater(file: FileRow): Promise<Added>;
  /** True when `add` would answer `busy`. */
  readonly full: boolean;
  /** The agent answers from it no more; the document stays. */
  withdraw(file: FileRow): Promise<void>;
  remove(files: readonly FileRow[]): Promise<void>;
  /** Reads what an earlier process left half read. */
  resume(): Promise<void>;
  /** Resolves when nothing is being read. */
  settled(): Promise<void>;
}

export function createLibrary(store: PlatformStore, clock: Clock, documents: DocumentReader): Library {
  const { commits, files, passages } = store;
  const reading = new Map<string, Promise<Added>>();

  async function read(file: FileRow): Promise<Added> {
    const document = await documents.read(file.name, () => files.bytes(file.id));
    // It stays `processing`, for the next start.
    if (document.kind === "stopped") return document;
    return commits.write((): Added => {
      const row = files.byId(file.agent_id, file.id);
      if (!row) return { kind: "gone" };
      // Withdrawn while it was read: after it had been added, as it seems to both callers.
      if (row.status !== "processing") return { kind: "done" };
      if (document.kind === "busy") {
        files.setStatus(file.id, file.status, file.reason, file.added_at);
        return document;
      }
      passages.removeFile(file.id);
      if (document.kind === "failed") {
        files.setStatus(file.id, "failed", document.reason, null);
        return document;
      }
      const found = passagesOf(undefined, document.text, file.name);
      passages.addFile(file.id, file.agent_id, found);
      files.setStatus(file.id, "done", null, clock.now());
      return { kind: "done" };
    });
  }

  async function begin(file: FileRow): Promise<void> {
    await commits.write(() => files.setStatus(file.id, "processing", null, null));
  }

  /** One reading of a file at a time: further requests wait for it. */
  function readOnce(file: FileRow): Promise<Added> {
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
      if (reading.has(file.id)) return readOnce(file);
      if (documents.full) return { kind: "busy" };
      await begin(file);
      return readOnce(file);
    },
    async addLater(file) {
      if (reading.has(file.id)) return { kind: "done" };
      if (documents.full) return { kind: "busy" };
      await begin(file);
      void readOnce(file).catch(() => undefined); // still `processing`: the next start reads it
      return { kind: "done" };
    },
    get full() {
      return documents.full;
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
      // One after the other: the queue has room for those who ask now.
      for (const file of files.processing()) await readOnce(file);
    },
    async settled() {
      while (reading.size > 0) await Promise.allSettled(reading.values());
    },
  };
}
