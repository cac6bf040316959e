// Records the file operations of a process with strace, in the order in which the kernel finished them.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { basename, dirname } from "node:path";

/** `sync` begins and ends: it covers only writes that were finished before it began, and only once it has ended. */
export type FileOperation =
  | { readonly kind: "write"; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: "truncate"; readonly file: string; readonly size: number }
  | { readonly kind: "create" | "unlink"; readonly file: string }
  | { readonly kind: "begin-sync"; readonly file: string; readonly id: number; readonly call: string }
  | { readonly kind: "end-sync"; readonly id: number }
  | { readonly kind: "output"; readonly text: string };

/** The folder itself, as a file that is synced. */
export const folderItself = ".";

const calls =
  "openat,open,creat,pwrite64,pwritev,pwritev2,write,writev,ftruncate,truncate,fallocate,copy_file_range," +
  "sendfile,sync_file_range,fdatasync,fsync,unlink,unlinkat,rename,renameat,renameat2,link,linkat";

/** Runs the command and returns what it did to the files whose names begin with `prefix`, and what it wrote to standard
 *  output. Rejects when it fails, or does what the model of the disk does not know. */
export async function traceFiles(prefix: string, command: readonly string[]): Promise<FileOperation[]> {
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
    path === folder
      ? folderItself
      : path.startsWith(prefix) && !path.endsWith("-shm")
        ? basename(path)
        : null;
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
  if (name === "write" && open?.[1] === "1" && strings[0])
    return [{ kind: "output", text: strings[0].toString() }];
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
