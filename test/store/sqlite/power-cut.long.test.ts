// Power-cut replay: records the file operations of the real driver, builds every state in which the disk can be when the
// power fails, and opens each. Acknowledged transactions are there, each is whole or absent, and no file is damaged.

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
import { basename, dirname, join } from "node:path";
import Sqlite from "better-sqlite3";
import { expect, it, onTestFinished } from "vitest";
import { describeReal, need } from "../../support/machine/debian.ts";

// Replays recorded file operations, cuts the power after each, and examines what the disk may then hold.

/** The name of the store's file in the recorded operations. */
const storeName = "store.db";
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

/** What the store in `file` says: the problem of the file, or how many transactions it holds, from the first on. They are
 *  numbered in the order of their commits: where a later one is, all earlier ones are, also those with `durable: false`. SQLite
 *  does not copy the WAL into the database at the end, because the file has another name than when it was opened. */
function examine(file: string): { readonly damage: string | null; readonly present: number } {
  const db = new Sqlite(file);
  try {
    db.pragma("locking_mode = EXCLUSIVE"); // needs no shared memory file
    db.pragma("synchronous = OFF");
    const check = db.pragma("integrity_check(1)", { simple: true });
    if (check !== "ok") return { damage: String(check), present: 0 };
    const tables = db.prepare("SELECT count(*) FROM sqlite_master WHERE name IN ('meta', 'files')").pluck().get();
    if (tables !== 2) return { damage: null, present: 0 };
    const broken = db.pragma("foreign_key_check") as unknown[];
    const count = (sql: string) => Number(db.prepare(sql).pluck().get() ?? -1);
    const present = count("SELECT count(*) FROM events");
    const parts = [
      count("SELECT max(CAST(substr(external_id, 2) AS INTEGER)) FROM events") + 1,
      count(
        "SELECT count(*) FROM events WHERE external_id IN (SELECT 'n' || substr(id, 2) FROM turns) AND state = 'routed'",
      ),
      count("SELECT count(*) FROM conversations"),
      count("SELECT count(*) FROM drafts"),
      count("SELECT count(*) FROM lanes") / 2,
      count("SELECT coalesce(max(CAST(substr(id, 2) AS INTEGER)), -1) FROM turns") + 1,
      count("SELECT value FROM meta WHERE name = 'written'") + 1,
    ];
    const whole = broken.length === 0 && parts.every((part) => part === present);
    return { damage: whole ? null : `a transaction is there in part: ${present} ${parts.join()}`, present };
  } catch (error) {
    return { damage: String(error), present: 0 };
  } finally {
    renameSync(file, `${file}.moved`);
    db.close();
    renameSync(`${file}.moved`, file);
  }
}

interface Findings {
  readonly states: number;
  readonly lost: number;
  readonly corrupt: number;
  /** States without a transaction that had resolved with `durable: false`. */
  readonly taken: number;
  readonly first: string;
}

/** Cuts the power after every operation, and examines four of the possible states. States that were examined before are
 *  not counted again. `obeys` says which syncs the disk obeys; the replay ends after `enough` losses. */
function replay(
  operations: readonly FileOperation[],
  place: Setup,
  obeys: (call: string) => boolean = () => true,
  enough = Number.POSITIVE_INFINITY,
): Findings {
  const disk = new Disk(obeys);
  const random = randomNumbers(7);
  const known = new Map<string, ReturnType<typeof examine>>();
  const counted = new Set<string>();
  let [acknowledged, resolved] = [0, 0];
  const found = { states: 0, lost: 0, corrupt: 0, taken: 0, first: "" };
  const look = (survival: Survival, index: number) => {
    const { files, key } = disk.contents(survival, random);
    if (counted.has(`${key} ${acknowledged}`)) return;
    counted.add(`${key} ${acknowledged}`);
    let state = known.get(key);
    if (!state) {
      place.put(files);
      state = examine(place.file);
      known.set(key, state);
    }
    found.states += 1;
    if (state.damage === null && state.present >= acknowledged) {
      if (state.present < resolved) found.taken += 1;
      return;
    }
    found[state.damage === null ? "lost" : "corrupt"] += 1;
    const what = state.damage ?? `${state.present} of ${acknowledged} acknowledged`;
    found.first ||= `operation ${index}, ${survival}: ${what}`;
  };
  let run = 0;
  for (const [index, operation] of operations.entries()) {
    const changes = disk.apply(operation);
    const before = acknowledged;
    for (const [, what, n] of operation.kind === "output" ? operation.text.matchAll(/^(\w+) (\d+)$/gm) : []) {
      if (what === "done") resolved = Math.max(resolved, Number(n) + 1);
      if (what === "ack" || what === "seen") acknowledged = Math.max(acknowledged, Number(n) + 1);
    }
    // A large mail is a long run of writes: some of them are examined, and the last.
    run = operation.kind === "write" ? run + 1 : 0;
    if (!changes && acknowledged === before) continue;
    if (run > mostWrites && run % mostWrites > 0 && operations[index + 1]?.kind === "write") continue;
    for (const survival of ["none", "all", "writes", "sectors"] as const) look(survival, index);
    if (found.lost >= enough) break;
  }
  return found;
}

/** The files of a state, where SQLite opens them. Successive states differ in few blocks; only those are written. */
class Setup {
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
type FileOperation =
  | { readonly kind: "write"; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: "truncate"; readonly file: string; readonly size: number }
  | { readonly kind: "create" | "unlink"; readonly file: string }
  | { readonly kind: "begin-sync"; readonly file: string; readonly id: number; readonly call: string }
  | { readonly kind: "end-sync"; readonly id: number }
  | { readonly kind: "output"; readonly text: string };

/** The folder itself, as a file that is synced. */
const folderItself = ".";

const calls =
  "openat,open,creat,pwrite64,pwritev,pwritev2,write,writev,ftruncate,truncate,fallocate,copy_file_range," +
  "sendfile,sync_file_range,fdatasync,fsync,unlink,unlinkat,rename,renameat,renameat2,link,linkat";

/** Runs the command and returns what it did to the files whose names begin with `prefix`, and what it wrote to standard
 *  output. Rejects when it fails, or does what the model of the disk does not know. */
async function traceFiles(prefix: string, command: readonly string[]): Promise<FileOperation[]> {
  const log = `${prefix}.trace`;
  const options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "200000", "-e", `trace=${calls}`, "-o", log];
  const child = spawn("strace", [...options, ...command], { stdio: ["ignore", "pipe", "pipe"] });
  let complaint = "";
  child.stdout.resume();
  child.stderr.on("data", (chunk: Buffer) => (complaint += chunk.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`tracing ${command.join(" ")}: exit code ${code}: ${complaint}`);
  const text = readFileSync(log, "latin1");
  rmSync(log);
  return parseTrace(text, prefix);
}

const decoded = (hex: string): Buffer => Buffer.from(hex.replaceAll("\\x", ""), "hex");

/** Lines of `strace -f -y -xx`; interrupted calls count from their second line. */
function parseTrace(text: string, prefix: string): FileOperation[] {
  const folder = dirname(prefix);
  const operations: FileOperation[] = [];
  const unfinished = new Map<string, { readonly begun: string; readonly sync: number | null }>();
  let syncs = 0;
  const nameOf = (path: string): string | null =>
    path === folder ? folderItself : path.startsWith(prefix) && !path.endsWith("-shm") ? basename(path) : null;
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
  if (name === "write" && open?.[1] === "1" && strings[0]) return [{ kind: "output", text: strings[0].toString() }];
  const path = open ? decoded(open[2] ?? "") : strings[0];
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

const missing = await need("strace", "/usr/bin/strace");
const program = new URL("../../support/store/child.ts", import.meta.url).pathname;

function folder(parent: string): string {
  const made = mkdtempSync(join(parent, "bridgehead-power-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** Two processes that die and one that closes the store, one after the other on the same file. */
async function record(): Promise<FileOperation[]> {
  const file = join(folder(tmpdir()), storeName);
  const node = [process.execPath, "--conditions=source", program, "write", file];
  const operations: FileOperation[] = [];
  for (const [first, count, end] of [
    [0, 49, "crash"],
    [49, 33, "close"],
    [82, 31, "die"],
  ] as const)
    operations.push(...(await traceFiles(file, [...node, String(first), String(count), end])));
  return operations;
}

function report(disk: string, { states, lost, corrupt }: Findings): void {
  process.stdout.write(`power cut, ${disk}: ${states} states, ${lost} lost, ${corrupt} corrupt\n`);
}

describeReal("a power cut", missing, () => {
  it("loses nothing acknowledged and damages nothing, at every instant", async () => {
    const operations = await record();
    const lines = operations.flatMap((one) => (one.kind === "output" ? one.text.trim().split("\n") : []));
    const numbers = (what: RegExp) => lines.filter((line) => what.test(line)).map((line) => Number(line.split(" ")[1]));
    expect(numbers(/^commit /)).toEqual(Array.from({ length: 113 }, (_, n) => n));
    expect(numbers(/^done /).length).toBeGreaterThanOrEqual(25);
    // The second process reads what the first has left.
    expect(numbers(/^seen /)).toContain(48);
    // Maintenance has made statistics, and returned pages to the file system: a checkpoint made the file shorter.
    expect(numbers(/^statistics /).filter((n) => n > 0)).toHaveLength(2);
    const sizes = operations.flatMap((one) => (one.kind === "truncate" && one.file === storeName ? [one.size] : []));
    expect(sizes.at(-1)).toBeLessThan(Math.max(...sizes));
    const place = new Setup(join(folder(existsSync("/dev/shm") ? "/dev/shm" : tmpdir()), storeName));
    const found = replay(operations, place);
    report("which obeys every sync", found);
    expect(found).toMatchObject({ lost: 0, corrupt: 0, first: "" });
    expect(found.states).toBeGreaterThanOrEqual(20_000);
    expect(found.taken).toBeGreaterThan(0);

    // Without the syncs of the driver, those of SQLite still keep the file whole.
    const forgetful = replay(operations, place, (call) => call !== "fdatasync", 10);
    report("which obeys only SQLite's", forgetful);
    expect(forgetful.lost).toBeGreaterThanOrEqual(10);
    expect(forgetful.corrupt).toBe(0);

    const careless = replay(operations, place, () => false, 10);
    report("which obeys none", careless);
    expect(careless.lost).toBeGreaterThanOrEqual(10);
  }, 1_200_000);
});
