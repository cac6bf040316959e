// Checks of this machine without a connection: modes and owners of the files, space on the disk, Node.js. `applyChanges`
// is what `doctor --fix` does.

import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  type Stats,
  type StatsFs,
  statSync,
} from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type Diagnosis, diagnosis, type FileChange } from "./catalogue.ts";

const octal = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, "0");

function statOf(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}

/** Reports a mode that grants one of `denied`. */
function modeProblem(
  path: string,
  denied: number,
  what: string,
  readable: Diagnosis["severity"] = "error",
): Diagnosis[] {
  const stats = statOf(path);
  if (stats === null || (stats.mode & denied) === 0) return [];
  const mode = stats.mode & 0o7777 & ~denied;
  const isWritable = (stats.mode & denied & 0o022) !== 0;
  const cause = `${what} has mode ${octal(stats.mode)}: other users of this machine can ${isWritable ? "change" : "read"} it`;
  const severity = isWritable ? "error" : readable;
  return [diagnosis("file-mode", path, cause, `chmod ${octal(mode)} ${path}`, { severity, change: { path, mode } })];
}

function ownerProblem(path: string, owner: Stats, what: string): Diagnosis[] {
  const stats = statOf(path);
  if (stats === null || stats.uid === owner.uid) return [];
  const { uid, gid } = owner;
  const cause = `${what} belongs to user ${stats.uid}, and the store to user ${uid}: the daemon cannot open it`;
  return [diagnosis("file-owner", path, cause, `sudo chown ${uid}:${gid} ${path}`, { change: { path, uid, gid } })];
}

/** Checks the configuration, the files with secrets, and the SQLite files `stores`, of which the store is the first. These
 *  belong to the owner of their folder, and so do files with secrets that only their owner can read. */
export function fileProblems(config: string, secrets: readonly string[], stores: readonly string[]): Diagnosis[] {
  const own = stores.flatMap((file) => storeFiles(file).map((path) => ({ path, owner: statOf(dirname(file)) })));
  const [store] = stores;
  const owner = store === undefined ? null : statOf(dirname(store));
  const closed = secrets.filter((path) => ((statOf(path)?.mode ?? 0) & 0o040) === 0);
  return [
    ...modeProblem(config, 0o027, "the configuration", "warning"),
    ...secrets.flatMap((path) => modeProblem(path, 0o037, "the file with a secret")),
    ...own.flatMap(({ path }) => modeProblem(path, 0o177, "the store")),
    ...own.flatMap((one) => (one.owner === null ? [] : ownerProblem(one.path, one.owner, "the file"))),
    ...(owner === null ? [] : closed.flatMap((path) => ownerProblem(path, owner, "the file with a secret"))),
  ];
}

/** The store and the files next to it, such as its log and its copies. No links: the daemon's user can create one to any file. */
function storeFiles(file: string): string[] {
  const [folder, name] = [dirname(file), basename(file)];
  try {
    return readdirSync(folder)
      .filter((one) => one === name || one.startsWith(`${name}-`) || one.startsWith(`${name}.before-`))
      .map((one) => join(folder, one))
      .filter((path) => lstatSync(path).isFile());
  } catch {
    return [];
  }
}

/** Applies the changes of modes and owners. Returns what was changed, and what could not be. Changes no file that a path
 *  leads to over a link: this runs as root, in folders of the daemon's user. */
export function applyChanges(changes: readonly FileChange[]): {
  readonly done: string[];
  readonly failed: string[];
} {
  const done: string[] = [];
  const failed: string[] = [];
  for (const change of changes) {
    const what = "mode" in change ? `mode ${octal(change.mode)}` : `owner ${change.uid}:${change.gid}`;
    try {
      applyChange(change);
      done.push(`${change.path}: ${what}`);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const remedy = code === "ELOOP" ? "it is a link; change its target" : "run this as root";
      failed.push(`${change.path}: ${what} could not be set (${code}): ${remedy}`);
    }
  }
  return { done, failed };
}

function applyChange(change: FileChange): void {
  const file = openSync(change.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    if (!stats.isFile() || stats.nlink > 1) throw Object.assign(new Error("a link"), { code: "ELOOP" });
    if ("mode" in change) fchmodSync(file, change.mode);
    else fchownSync(file, change.uid, change.gid);
  } finally {
    closeSync(file);
  }
}

const leastBytes = 32 * 2 ** 20;
const lowBytes = 512 * 2 ** 20;
const leastInodes = 1000;

/** Checks the file system of `folder`. An error below what the daemon needs to accept messages, else a warning. */
export async function diskProblems(
  folder: string,
  read: (path: string) => Promise<Pick<StatsFs, "bavail" | "bsize" | "files" | "ffree">> = statfs,
): Promise<Diagnosis[]> {
  const disk = await read(folder).catch(() => null);
  if (disk === null) return [];
  const free = disk.bavail * disk.bsize;
  const remedy = `free space: df -h ${folder}; a shorter retention.raw makes the store smaller`;
  const space =
    free >= lowBytes
      ? []
      : [
          diagnosis(
            "disk-space",
            folder,
            `${Math.floor(free / 2 ** 20)} MiB are free, at least ${leastBytes / 2 ** 20} are needed: with less, the daemon is not ready, and soon accepts no messages`,
            remedy,
            { severity: free < leastBytes ? "error" : "warning" },
          ),
        ];
  // File systems without a fixed number of inodes report none at all.
  if (disk.files === 0 || disk.ffree >= leastInodes) return space;
  const cause = `${disk.ffree} inodes are free: no files can be created soon`;
  return [...space, diagnosis("disk-inodes", folder, cause, `delete files: df -i ${folder}`)];
}

/** End of life of the release lines with long-term support (nodejs.org/en/about/previous-releases). */
const endOfLife: Readonly<Record<number, string>> = { 22: "2027-04-30", 24: "2028-04-30", 26: "2029-04-30" };

/** `version` as in process.versions.node; `now` in epoch milliseconds. A release line whose support ends within `soonMs` is reported. */
export function nodeProblems(version: string, now: number, soonMs: number): Diagnosis[] {
  const major = Number(version.split(".", 1)[0]);
  const end = endOfLife[major];
  const isOdd = major % 2 === 1;
  if (end === undefined && !isOdd) return [];
  if (end !== undefined && Date.parse(end) - now > soonMs) return [];
  const cause =
    end === undefined
      ? `Node.js ${version} belongs to a release line without long-term support`
      : `Node.js ${version} gets no security fixes after ${end}`;
  const remedy = "install a newer long-term release: https://nodejs.org/en/download";
  return [diagnosis("node-end-of-life", process.execPath, cause, remedy)];
}
