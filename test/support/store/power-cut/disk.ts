// Model of a disk that loses its power: which contents of the files are possible at an instant. A write, a truncation or
// a directory entry that no sync has covered may be there, be missing, or (a write) be there in part, sector by sector.

import { createHash } from "node:crypto";
import { type FileOperation, folderItself } from "./file-trace.ts";

type Change = Extract<FileOperation, { kind: "write" | "truncate" }>;
type Entry = Extract<FileOperation, { kind: "create" | "unlink" }>;

interface Inode {
  durable: Buffer;
  /** Position of the newest change in `durable`. */
  version: number;
  /** Changes without a sync, oldest first, with their position in the order of all. */
  pending: { readonly order: number; readonly change: Change }[];
}

export type Files = ReadonlyMap<string, Buffer>;

/** What survives: nothing, everything, or a random part in whole writes or in sectors. */
export type Survival = "none" | "all" | "writes" | "sectors";

const sector = 512;

/** `obeys` says which syncs the disk obeys: a negative control leaves some out. */
export class Disk {
  readonly #obeys: (call: string) => boolean;
  /** What programs see. */
  readonly #names = new Map<string, Inode>();
  readonly #durableNames = new Map<string, Inode>();
  #entries: { readonly order: number; readonly entry: Entry; readonly inode: Inode | null }[] = [];
  readonly #syncs = new Map<number, () => void>();
  readonly #images = new Map<string, Buffer>();
  #order = 0;

  constructor(obeys: (call: string) => boolean) {
    this.#obeys = obeys;
  }

  /** Returns true when other contents are possible after the operation than before. */
  apply(operation: FileOperation): boolean {
    const order = ++this.#order;
    switch (operation.kind) {
      case "write":
      case "truncate":
        this.#inode(operation.file).pending.push({ order, change: operation });
        return true;
      case "create":
      case "unlink":
        return this.#rename(order, operation);
      case "begin-sync":
        if (this.#obeys(operation.call)) this.#syncs.set(operation.id, this.#syncOf(operation.file, order));
        return false;
      case "end-sync":
        this.#syncs.get(operation.id)?.();
        return this.#syncs.delete(operation.id);
      case "output":
        return false;
    }
  }

  /** One possible content of the files, with a key that is the same for the same choice. They are valid until the next
   *  call. `random` answers 0 (inclusive) to 1. */
  contents(survival: Survival, random: () => number): { readonly files: Files; readonly key: string } {
    const choice = createHash("sha1");
    const note = (...numbers: number[]) => choice.update(`${numbers.join()} `);
    const all = this.#entries.length;
    // File systems order changes of names: the first few of them survive.
    const kept = survival === "none" ? 0 : survival === "all" ? all : Math.floor(random() * (all + 1));
    const names = new Map(this.#durableNames);
    for (const { order, entry, inode } of this.#entries.slice(0, kept)) {
      note(order);
      rename(names, entry, inode);
    }
    const share = [0.1, 0.5, 0.9][Math.floor(random() * 3)] ?? 0.5;
    const survives = () => survival === "all" || (survival !== "none" && random() < share);
    const contentOf = (name: string, { durable, version, pending }: Inode): Buffer => {
      note(version);
      const ends = pending.map(({ change }) => endOf(change));
      const image = this.#scratch(name, Math.max(durable.length, ...ends));
      durable.copy(image);
      let size = durable.length;
      for (const { order, change } of pending) {
        for (const part of survival === "sectors" ? sectorsOf(change) : [change]) {
          if (!survives()) continue;
          size = write(image, size, part);
          note(order, part.kind === "write" ? part.at : -1, endOf(part));
        }
      }
      return image.subarray(0, size);
    };
    const files = new Map([...names].map(([name, inode]) => [name, contentOf(name, inode)]));
    return { files, key: choice.digest("base64") };
  }

  /** A buffer of at least that size, reused by the next call for the file. */
  #scratch(file: string, size: number): Buffer {
    const found = this.#images.get(file);
    if (found && found.length >= size) return found;
    const made = Buffer.alloc(size * 2);
    this.#images.set(file, made);
    return made;
  }

  #inode(file: string): Inode {
    const found = this.#names.get(file);
    if (!found) throw new Error(`${file} is written and was never created`);
    return found;
  }

  #rename(order: number, entry: Entry): boolean {
    if (entry.kind === "create" && this.#names.has(entry.file)) return false;
    const inode = entry.kind === "create" ? { durable: Buffer.alloc(0), version: order, pending: [] } : null;
    this.#entries.push({ order, entry, inode });
    rename(this.#names, entry, inode);
    return true;
  }

  #syncOf(file: string, before: number): () => void {
    if (file === folderItself)
      return () => {
        for (const { entry, inode } of this.#entries.filter(({ order }) => order < before))
          rename(this.#durableNames, entry, inode);
        this.#entries = this.#entries.filter(({ order }) => order >= before);
      };
    const inode = this.#inode(file);
    return () => {
      const covered = inode.pending.filter(({ order }) => order < before);
      if (covered.length === 0) return;
      const ends = covered.map(({ change }) => endOf(change));
      const image = Buffer.alloc(Math.max(inode.durable.length, ...ends));
      inode.durable.copy(image);
      let size = inode.durable.length;
      for (const { order, change } of covered) {
        size = write(image, size, change);
        inode.version = order;
      }
      inode.durable = image.subarray(0, size);
      inode.pending = inode.pending.filter(({ order }) => order >= before);
    };
  }
}

function rename(names: Map<string, Inode>, { kind, file }: Entry, inode: Inode | null): void {
  if (kind === "create" && inode) names.set(file, inode);
  else names.delete(file);
}

const endOf = (change: Change): number =>
  change.kind === "truncate" ? change.size : change.at + change.bytes.length;

/** Applies the change to a file of `size` bytes in `image`, and returns its new size. A gap reads as zeros. */
function write(image: Buffer, size: number, change: Change): number {
  const end = endOf(change);
  const from = change.kind === "truncate" ? end : change.at;
  if (from > size) image.fill(0, size, from);
  if (change.kind === "truncate") return end;
  change.bytes.copy(image, change.at);
  return Math.max(size, end);
}

function* sectorsOf(change: Change): Generator<Change> {
  if (change.kind === "truncate") yield change;
  else
    for (let at = change.at; at < change.at + change.bytes.length; ) {
      const end = Math.min(change.at + change.bytes.length, (Math.floor(at / sector) + 1) * sector);
      yield { ...change, at, bytes: change.bytes.subarray(at - change.at, end - change.at) };
      at = end;
    }
}
