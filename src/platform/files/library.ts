// The agent's documents: stores, parses, indexes and removes them. A file whose parsing was interrupted is
// parsed again at the next start.

import type { Clock } from "bridgehead/contract";
import { passagesOf } from "../brain/knowledge.ts";
import { newUuid } from "../ids.ts";
import type { FileRow } from "../store/files.ts";
import type { PlatformStore } from "../store/store.ts";
import type { DocumentReader } from "./reading.ts";

/** The result of indexing a file. `failed`: the document cannot be read, with the reason. `busy`: the queue is full and
 *  nothing was changed. `gone`: the file was deleted in the meantime. `stopped`: shutdown; the next start resumes. */
export type Added =
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "busy" }
  | { readonly kind: "gone" }
  | { readonly kind: "stopped" };

export class Library {
  readonly #store: PlatformStore;
  readonly #clock: Clock;
  readonly #documents: DocumentReader;
  /** By file. */
  readonly #reading = new Map<string, Promise<Added>>();

  constructor(store: PlatformStore, clock: Clock, documents: DocumentReader) {
    this.#store = store;
    this.#clock = clock;
    this.#documents = documents;
  }

  /** Stores a document and returns its row. */
  async take(agentId: string, name: string, mediaType: string, bytes: Uint8Array): Promise<FileRow> {
    const now = this.#clock.now();
    const row = { id: newUuid(now), agent_id: agentId, name, media_type: mediaType, created_at: now };
    await this.#store.commits.write(() => this.#store.files.insert(row, bytes));
    return { ...row, size: bytes.byteLength, status: null, reason: null, added_at: null };
  }

  /** Indexes the file. Resolves when it is searchable, or when it is unreadable (`failed`). */
  async add(file: FileRow): Promise<Added> {
    return (await this.#begin(file)) ? this.#readOnce(file) : { kind: "busy" };
  }

  /** Marks the file `processing` and parses it in the background. `done` means that this has started. */
  async addLater(file: FileRow): Promise<Added> {
    if (!(await this.#begin(file))) return { kind: "busy" };
    void this.#readOnce(file).catch(() => undefined); // still `processing`: parsed at the next start
    return { kind: "done" };
  }

  /** True when `add` would return `busy`. */
  get full(): boolean {
    return this.#documents.full;
  }

  /** Removes the file from the agent's index; the document stays stored. */
  withdraw(file: FileRow): Promise<void> {
    const { commits, files, passages } = this.#store;
    return commits.write(() => {
      passages.removeFile(file.id);
      files.setStatus(file.id, null, null, null);
    });
  }

  remove(removed: readonly FileRow[]): Promise<void> {
    const { commits, files, passages } = this.#store;
    return commits.write(() => {
      for (const { id } of removed) {
        passages.removeFile(id);
        files.remove(id);
      }
    });
  }

  /** Parses the files whose parsing an earlier process did not finish. */
  async resume(): Promise<void> {
    // Sequential, so that the queue has capacity for current requests.
    for (const file of this.#store.files.processing()) await this.#readOnce(file);
  }

  /** Resolves when no file is being parsed. */
  async idle(): Promise<void> {
    while (this.#reading.size > 0) await Promise.allSettled(this.#reading.values());
  }

  /** Marks the file `processing`, also while it is being parsed, because it may have been withdrawn since then. Returns
   *  false when the queue is full. */
  async #begin(file: FileRow): Promise<boolean> {
    if (!this.#reading.has(file.id) && this.#documents.full) return false;
    await this.#store.commits.write(() => this.#store.files.setStatus(file.id, "processing", null, null));
    return true;
  }

  /** Parses a file once at a time; concurrent requests for it share the result. */
  #readOnce(file: FileRow): Promise<Added> {
    const running = this.#reading.get(file.id);
    if (running) return running;
    const end = (): void => {
      if (this.#reading.get(file.id) === done) this.#reading.delete(file.id);
    };
    const done = this.#read(file, () => end()).finally(() => end());
    this.#reading.set(file.id, done);
    return done;
  }

  /** `end` is called when the file's status is read for the last time: a later request parses the file again. */
  async #read(file: FileRow, end: () => void): Promise<Added> {
    const { commits, files, passages } = this.#store;
    const document = await this.#documents.read(file.name, () => files.bytes(file.id));
    // The file stays `processing`, for the next start.
    if (document.kind === "stopped") return document;
    return commits.write((): Added => {
      end();
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
      passages.addFile(file.id, file.agent_id, passagesOf(undefined, document.text, file.name));
      files.setStatus(file.id, "done", null, this.#clock.now());
      return { kind: "done" };
    });
  }
}
