// Power-cut replay: records the file operations of a process, builds every state in which the disk can be when the power fails,
// and examines each.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import Sqlite from "better-sqlite3";
import { onTestFinished } from "vitest";

/** The name of the store's file in the recorded operations. */
export const storeName = "store.db";
/** Unit in which files are compared (bytes). */
const block = 4096;
/** Length of a run of writes up to which each is examined. */
const mostWrites = 100;

/** Numbers below 1, the same in every run. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** What a program has promised so far, and what the files of a state hold of it. */
export interface Evidence<State> {
  /** Notes what the program has said or sent. Returns true when that promises more than before. */
  note(output: Output): boolean;
  /** Reads an open store. Throws when it is damaged. */
  read(db: Sqlite.Database): State;
  /** Returns which promise the state breaks; null when it keeps all. `lost`: something is missing. `corrupt`: it is there in part. */
  broken(state: State): { readonly kind: "lost" | "corrupt"; readonly what: string } | null;
}

/** Reads the store in `file`; a string is the damage. SQLite does not copy the WAL into the database at the end, because the file
 *  has another name than when it was opened. */
function examine<State>(file: string, read: Evidence<State>["read"]): { readonly state: State } | string {
  const db = new Sqlite(file);
  try {
    db.pragma("locking_mode = EXCLUSIVE"); // needs no shared memory file
    db.pragma("synchronous = OFF");
    const check = db.pragma("integrity_check(1)", { simple: true });
    if (check !== "ok") return String(check);
    if ((db.pragma("foreign_key_check") as unknown[]).length > 0) return "a row refers to one that is not there";
    return { state: read(db) };
  } catch (error) {
    return String(error);
  } finally {
    renameSync(file, `${file}.moved`);
    db.close();
    renameSync(`${file}.moved`, file);
  }
}

/** Returns the number that the query selects. */
export const numberOf = (db: Sqlite.Database, sql: string): number => Number(db.prepare(sql).pluck().get() ?? -1);

/** True when these tables are there: before, nothing was promised. */
export const hasTables = (db: Sqlite.Database, ...tables: readonly string[]): boolean =>
  tables.every((name) => db.prepare("SELECT 1 FROM sqlite_master WHERE name = ?").get(name) !== undefined);

export interface Findings {
  readonly states: number;
  readonly lost: number;
  readonly corrupt: number;
  readonly first: string;
}

/** Cuts the power after every operation, and examines four of the possible states. States that were examined before are
 *  not counted again. `obeys` says which syncs the disk obeys; the replay ends after `enough` losses. */
export function replay<State>(
  operations: readonly FileOperation[],
  evidence: Evidence<State>,
  obeys: (call: string) => boolean = () => true,
  enough = Number.POSITIVE_INFINITY,
): Findings {
  const place = new Place(join(folder(existsSync("/dev/shm") ? "/dev/shm" : tmpdir()), storeName));
  const disk = new Disk(obeys);
  const random = randomNumbers(7);
  const known = new Map<string, ReturnType<typeof examine<State>>>();
  const counted = new Set<string>();
  let promises = 0;
  const found = { states: 0, lost: 0, corrupt: 0, first: "" };
  const look = (survival: Survival, index: number) => {
    const { files, key } = disk.contents(survival, random);
    if (counted.has(`${key} ${promises}`)) return;
    counted.add(`${key} ${promises}`);
    let result = known.get(key);
    if (result === undefined) {
      place.put(files);
      result = examine(place.file, (db) => evidence.read(db));
      known.set(key, result);
    }
    found.states += 1;
    const broken =
      typeof result === "string" ? ({ kind: "corrupt", what: result } as const) : evidence.broken(result.state);
    if (broken === null) return;
    found[broken.kind] += 1;
    found.first ||= `operation ${index}, ${survival}: ${broken.what}`;
  };
  let run = 0;
  for (const [index, operation] of operations.entries()) {
    const changes = disk.apply(operation);
    const promised = operation.kind === "output" && evidence.note(operation);
    if (promised) promises += 1;
    // A large mail is a long run of writes: some of them are examined, and the last.
    run = operation.kind === "write" ? run + 1 : 0;
    if (!changes && !promised) continue;
    if (run > mostWrites && run % mostWrites > 0 && operations[index + 1]?.kind === "write") continue;
    for (const survival of ["none", "all", "writes", "sectors"] as const) look(survival, index);
    if (found.lost >= enough) break;
  }
  return found;
}

export function report(disk: string, { states, lost, corrupt }: Findings): void {
  process.stdout.write(`power cut, ${disk}: ${states} states, ${lost} lost, ${corrupt} corrupt\n`);
}

/** A new folder, until the test ends. */
export function folder(parent: string): string {
  const made = mkdtempSync(join(parent, "bridgehead-power-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** The files of a state, where SQLite opens them. Successive states differ in few blocks; only those are written. */
class Place {
  readonly file: string;
  /** What the files contain. */
  readonly #contents = new Map<string, Buffer>();

  constructor(file: string) {
    this.file = file;
  }

  put(files: Files): void {
    // SQLite rolls a journal back into the database. Apart from that it may only remove files.
    if (this.#contents.has(`${storeName}-journal`)) this.#contents.clear();
    for (const suffix of ["", "-wal", "-shm", "-journal"]) {
      const [name, path] = [storeName + suffix, this.file + suffix];
      const [content, known] = [files.get(name), this.#contents.get(name)];
      if (content && known?.length === content.length && existsSync(path)) {
        const file = openSync(path, "r+");
        change(file, known, content, 0, content.length);
        closeSync(file);
        continue;
      }
      rmSync(path, { force: true });
      this.#contents.delete(name);
      if (!content) continue;
      writeFileSync(path, content);
      this.#contents.set(name, Buffer.from(content));
    }
  }
}

/** Makes the bytes of a file, and of the copy of its contents, those of `to`. */
function change(file: number, contents: Buffer, to: Buffer, start: number, end: number): void {
  if (to.compare(contents, start, end, start, end) === 0) return;
  if (end - start <= block) {
    writeSync(file, to, start, end - start, start);
    to.copy(contents, start, start, end);
    return;
  }
  const middle = start + block * Math.ceil((end - start) / block / 2);
  change(file, contents, to, start, middle);
  change(file, contents, to, middle, end);
}

// Model of a disk that loses its power: which contents of the files are possible at an instant. A write, a truncation or
// a directory entry that no sync has covered may be there, be missing, or (a write) be there in part, sector by sector.

type Change = Extract<FileOperation, { kind: "write" | "truncate" }>;
type Entry = Extract<FileOperation, { kind: "create" | "unlink" }>;

interface Inode {
  durable: Buffer;
  /** Position of the newest change in `durable`. */
  version: number;
  /** Changes without a sync, oldest first, with their position in the order of all. */
  pending: { readonly order: number; readonly change: Change }[];
}

type Files = ReadonlyMap<string, Buffer>;

/** What survives: nothing, everything, or a random part in whole writes or in sectors. */
type Survival = "none" | "all" | "writes" | "sectors";

const sector = 512;

/** `obeys` says which syncs the disk obeys: a negative control leaves some out. */
class Disk {
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

const endOf = (change: Change): number => (change.kind === "truncate" ? change.size : change.at + change.bytes.length);

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

// Records the file operations of a process with strace, in the order in which the kernel finished them.

/** `sync` begins and ends: it covers only writes that were finished before it began, and only once it has ended. */
export type FileOperation =
  | { readonly kind: "write"; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: "truncate"; readonly file: string; readonly size: number }
  | { readonly kind: "create" | "unlink"; readonly file: string }
  | { readonly kind: "begin-sync"; readonly file: string; readonly id: number; readonly call: string }
  | { readonly kind: "end-sync"; readonly id: number }
  | Output;

/** What the process wrote to its standard output or to a socket. */
export interface Output {
  readonly kind: "output";
  readonly to: "stdout" | "socket";
  readonly text: string;
}

/** The folder itself, as a file that is synced. */
const folderItself = ".";

const calls =
  "openat,open,creat,pwrite64,pwritev,pwritev2,write,writev,ftruncate,truncate,fallocate,copy_file_range," +
  "sendfile,sync_file_range,fdatasync,fsync,unlink,unlinkat,rename,renameat,renameat2,link,linkat";

interface Traced {
  readonly env?: Readonly<Record<string, string>>;
  /** Uses the process while it runs, and ends it; `pid` is its id. */
  readonly during?: (pid: number, words: Readable) => Promise<void>;
}

/** Runs the command and returns what it did to the SQLite file `store`, and what it wrote to standard output and to sockets.
 *  Rejects when it fails, or does what the model of the disk does not know. */
export async function traceFiles(
  store: string,
  command: readonly string[],
  { env = {}, during }: Traced = {},
): Promise<FileOperation[]> {
  const log = `${store}.trace`;
  const options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "200000", "-e", `trace=${calls}`, "-o", log];
  const child = spawn("strace", [...options, ...command], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  const closed = once(child, "close") as Promise<[number | null]>;
  let words = "";
  child.stdout.resume();
  child.stderr.on("data", (chunk: Buffer) => (words = (words + chunk.toString()).slice(-100_000)));
  if (during) {
    const traced = async () =>
      during(Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim()), child.stderr);
    await Promise.race([once(child.stderr, "data"), closed]);
    await Promise.race([traced(), closed]);
  }
  const [code] = await closed;
  if (code !== 0) throw new Error(`tracing ${command.join(" ")}: exit code ${code}: ${words}`);
  const text = readFileSync(log, "latin1");
  rmSync(log);
  return parseTrace(text, store);
}

const decoded = (hex: string): Buffer => Buffer.from(hex.replaceAll("\\x", ""), "hex");

/** Lines of `strace -f -y -xx`; interrupted calls count from their second line. */
function parseTrace(text: string, store: string): FileOperation[] {
  const parts = new Set(["", "-wal", "-journal"].map((suffix) => store + suffix));
  const operations: FileOperation[] = [];
  const unfinished = new Map<string, { readonly begun: string; readonly sync: number | null }>();
  let syncs = 0;
  const nameOf = (path: string): string | null =>
    path === dirname(store) ? folderItself : parts.has(path) ? storeName + path.slice(store.length) : null;
  const beginSync = (call: string): number | null => {
    const found = /^(f(?:data)?sync)\(\d+<([^>]*)>/.exec(call);
    const file = found && nameOf(decoded(found[2] ?? "").toString());
    if (!found || file === null) return null;
    operations.push({ kind: "begin-sync", file, id: ++syncs, call: found[1] ?? "" });
    return syncs;
  };
  const finish = (call: string, sync: number | null) => {
    if (sync === null) operations.push(...operationsOf(call, nameOf));
    else if (/ = 0\b/.test(call)) operations.push({ kind: "end-sync", id: sync });
  };
  for (const line of text.split("\n")) {
    const found = /^(\d+) +(.*)$/.exec(line);
    const [, thread = "", call = ""] = found ?? [];
    const interrupted = /^(.*) <unfinished \.\.\.>$/.exec(call);
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(call);
    if (interrupted) {
      const begun = interrupted[1] ?? "";
      unfinished.set(thread, { begun, sync: beginSync(begun) });
    } else if (resumed) {
      const before = unfinished.get(thread);
      unfinished.delete(thread);
      if (before) finish(before.begun + (resumed[1] ?? ""), before.sync);
    } else if (found) finish(call, beginSync(call));
  }
  return operations;
}

function operationsOf(call: string, nameOf: (path: string) => string | null): FileOperation[] {
  const [, name = "", rest = "", result = ""] = /^(\w+)\((.*)\) += (-?\d+)/s.exec(call) ?? [];
  if (name === "" || result.startsWith("-")) return [];
  const strings = [...rest.matchAll(/"((?:\\x[0-9a-f]{2})*)"/g)].map(([, hex = ""]) => decoded(hex));
  const open = /^(\d+)<([^>]*)>/.exec(rest);
  const path = open ? decoded(open[2] ?? "") : strings[0];
  if (name.startsWith("write")) {
    const to = open?.[1] === "1" ? "stdout" : path?.toString().startsWith("socket:") ? "socket" : null;
    if (to !== null) return [{ kind: "output", to, text: Buffer.concat(strings).toString("latin1") }];
  }
  const file = path === undefined ? null : nameOf(path.toString());
  if (file === null) return [];
  const numbers = rest.split(", ").map(Number);
  if (name === "pwrite64" && strings[0]) {
    if (strings[0].length !== Number(result)) throw new Error(`a write was cut: ${call.slice(0, 80)}`);
    return [{ kind: "write", file, at: numbers.at(-1) ?? 0, bytes: strings[0] }];
  }
  if (name === "ftruncate") return [{ kind: "truncate", file, size: numbers.at(-1) ?? 0 }];
  if (name.startsWith("open")) return rest.includes("O_CREAT") ? [{ kind: "create", file }] : [];
  if (name === "unlink") return [{ kind: "unlink", file }];
  throw new Error(`the model of the disk does not know ${name} of ${file}`);
}
