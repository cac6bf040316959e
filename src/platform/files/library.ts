// The agent's documents: stores, parses, indexes and removes them. A file whose parsing was interrupted is
// parsed again at the next start.

import type { Clock } from "bridgehead/contract";
import { passagesOf } from "../brain/knowledge.ts";
import { newUuid } from "../ids.ts";
import type { FileRow } from "../store/files.ts";
import type { PlatformStore } from "../store/store.ts";
import type { DocumentReader } from "./reading.ts";

/** The result of indexing a file. `failed`: the document cannot be read, with the reason. `busy`: the
 *  queue is full and nothing was changed. `gone`: the file was deleted in the meantime. `stopped`:
 *  shutdown; the next start resumes. */
export type Added =
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "busy" }
  | { readonly kind: "gone" }
  | { readonly kind: "stopped" };

export interface Library {
  /** Stores a document and returns its row. */
  take(agentId: string, name: string, mediaType: string, bytes: Uint8Array): Promise<FileRow>;
  /** Indexes the file. Resolves when it is searchable, or when it is unreadable (`failed`). */
  add(file: FileRow): Promise<Added>;
  /** Marks the file `processing` and parses it in the background. `done` means that this has started. */
  addLater(file: FileRow): Promise<Added>;
  /** True when `add` would return `busy`. */
  readonly full: boolean;
  /** Removes the file from the agent's index; the document stays stored. */
  withdraw(file: FileRow): Promise<void>;
  remove(files: readonly FileRow[]): Promise<void>;
  /** Parses the files whose parsing an earlier process did not finish. */
  resume(): Promise<void>;
  /** Resolves when no file is being parsed. */
  settled(): Promise<void>;
}

export function createLibrary(store: PlatformStore, clock: Clock, documents: DocumentReader): Library {
  const { commits, files, passages } = store;
  const reading = new Map<string, Promise<Added>>();

  async function read(file: FileRow): Promise<Added> {
    const document = await documents.read(file.name, () => files.bytes(file.id));
    // The file stays `processing`, for the next start.
    if (document.kind === "stopped") return document;
    return commits.write((): Added => {
      const row = files.byId(file.agent_id, file.id);
      if (!row) return { kind: "gone" };
      // The file was withdrawn while it was parsed. Both callers see the same result as if it was withdrawn
      // after the add.
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

  /** Parses a file once at a time; concurrent requests for it share the result. */
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
      void readOnce(file).catch(() => undefined); // still `processing`: parsed at the next start
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
      // Sequential, so that the queue has capacity for current requests.
      for (const file of files.processing()) await readOnce(file);
    },
    async settled() {
      while (reading.size > 0) await Promise.allSettled(reading.values());
    },
  };
}
