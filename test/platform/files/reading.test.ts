// The processes that parse documents: their limits, their queue, and that none is left behind.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { DocumentReader, type ReadingLimits } from "../../../src/platform/files/reading.ts";
import { docxBomb, pdfBomb, pdfOf } from "../../support/platform/platform.ts";
import { newFolder } from "../../support/resources.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const bomb = pdfBomb(20_000_000);

function readerWith(limits: Partial<ReadingLimits>) {
  const stopping = new AbortController();
  onTestFinished(() => stopping.abort());
  const reader = new DocumentReader(stopping.signal, limits);
  const read = (name: string, bytes: string | Uint8Array) =>
    reader.read(name, () => (typeof bytes === "string" ? Buffer.from(bytes) : bytes));
  return { reader, read, stop: () => stopping.abort() };
}

/** Process ids of the children of a process (Linux). */
function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return text === "" ? [] : text.split(" ").map(Number);
}

const parsersOf = (pid: number) =>
  childrenOf(pid).filter((child) => {
    try {
      return readFileSync(`/proc/${child}/cmdline`, "utf8").includes("parser.");
    } catch {
      return false;
    }
  });

/** The most memory that a process has used so far, in megabytes; 0 when it has just ended. */
function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

describe("parsing a document", () => {
  test.each<[string, Partial<ReadingLimits>, RegExp]>([
    ["memory", { memoryMb: 200 }, /more than 200 MB of memory/],
    ["processor time", { cpuMs: 500, memoryMb: 4_096 }, /more than 0.5 s of processor time/],
    ["duration", { wallMs: 400, memoryMb: 4_096 }, /longer than 0.4 s/],
  ])("ends when it takes too much %s, and its process with it", async (_what, limits, reason) => {
    const { read } = readerWith(limits);
    expect(await read("bomb.pdf", bomb)).toEqual({
      kind: "failed",
      reason: expect.stringMatching(reason),
    });
    expect(parsersOf(process.pid)).toEqual([]);
  });

  test("keeps its memory near the limit, with any document", async () => {
    const { read } = readerWith({ memoryMb: 300 });
    const reading = read("bomb.pdf", bomb);
    let peak = 0;
    const watch = setInterval(() => {
      for (const pid of parsersOf(process.pid)) {
        peak = Math.max(peak, peakOf(pid));
      }
    }, 5);
    expect((await reading).kind).toBe("failed");
    clearInterval(watch);
    expect(peak).toBeGreaterThan(100);
    expect(peak).toBeLessThan(600);
  });

  test("cuts its text at the limit", async () => {
    const { read } = readerWith({ maxLength: 50 });
    for (const [name, bytes] of [
      ["long.txt", "word ".repeat(10_000)],
      ["long.html", `<p>${"word ".repeat(10_000)}</p>`],
      ["long.docx", docxBomb(3_000)],
      ["long.pdf", pdfBomb(10_000)],
    ] as const) {
      const document = await read(name, bytes);
      expect(document.kind).toBe("read");
      expect(document.kind === "read" && document.text.length).toBeGreaterThan(45);
      expect(document.kind === "read" && document.text.length).toBeLessThanOrEqual(50);
    }
  });

  test("runs in few processes, lets few wait and loads no bytes before their turn", async () => {
    const { reader, read, stop } = readerWith({ processes: 1, queue: 2, memoryMb: 4_096 });
    let loaded = 0;
    const load = () => (loaded++, Buffer.from("words"));
    const first = read("bomb.pdf", bomb);
    const waiting = [reader.read("a.txt", load), reader.read("b.txt", load)];
    expect(reader.full).toBe(true);
    expect(await reader.read("c.txt", load)).toEqual({ kind: "busy" });
    await expect.poll(() => parsersOf(process.pid)).toHaveLength(1);
    expect(loaded).toBe(0);
    stop();
    expect(await first).toEqual({ kind: "stopped" });
    expect(await Promise.all(waiting)).toEqual([{ kind: "stopped" }, { kind: "stopped" }]);
    expect(parsersOf(process.pid)).toEqual([]);
  });

  test("gives the place on in the order of arrival", async () => {
    const { reader } = readerWith({ processes: 1, queue: 10 });
    const order: string[] = [];
    const texts = ["a", "b", "c", "d"].map(async (name) => {
      const document = await reader.read(`${name}.txt`, () => (order.push(name), Buffer.from(name)));
      return document.kind === "read" ? document.text : document.kind;
    });
    expect(await Promise.all(texts)).toEqual(["a", "b", "c", "d"]);
    expect(order).toEqual(["a", "b", "c", "d"]);
  });

  test("ends with the process that asked for it, also when that is killed", async () => {
    const folder = newFolder();
    await writeFile(join(folder, "bomb.pdf"), bomb);
    const reading = pathToFileURL(join(root, "src/platform/files/reading.ts")).href;
    const script = `
      import { readFileSync } from "node:fs";
      import { DocumentReader } from ${JSON.stringify(reading)};
      const reader = new DocumentReader(new AbortController().signal, { memoryMb: 8_192, cpuMs: 60_000 });
      await reader.read("bomb.pdf", () => readFileSync(${JSON.stringify(join(folder, "bomb.pdf"))}));
    `;
    const parent: ChildProcess = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: "ignore",
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    await expect.poll(() => parsersOf(parent.pid ?? 0)).toHaveLength(1);
    const [parser = 0] = parsersOf(parent.pid ?? 0);
    onTestFinished(() => {
      if (existsSync(`/proc/${parser}`)) process.kill(parser, "SIGKILL");
    });
    // It has read the document and is busy: a parser in a loop does not read its channel.
    const ticks = () => Number(readFileSync(`/proc/${parser}/stat`, "utf8").split(" ")[13]);
    await expect.poll(ticks).toBeGreaterThan(50);
    parent.kill("SIGKILL");
    await once(parent, "exit");
    await expect.poll(() => existsSync(`/proc/${parser}`)).toBe(false);
  });

  test("works in the build as well", async () => {
    const folder = newFolder();
    const build = {
      extends: join(root, "tsconfig.build.json"),
      compilerOptions: { noCheck: true, declaration: false, rootDir: root, outDir: join(folder, "dist") },
      include: [],
      files: ["reading.ts", "parser.ts"].map((name) => join(root, "src/platform/files", name)),
    };
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(build));
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    await promisify(execFile)(process.execPath, [compiler, "-p", folder]);
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    await writeFile(join(folder, "lamp.pdf"), pdfOf("The lamp weighs seven kilograms."));
    const script = `
      import { readFileSync } from "node:fs";
      import { DocumentReader } from "./dist/src/platform/files/reading.js";
      const reader = new DocumentReader(new AbortController().signal);
      console.log(JSON.stringify(await reader.read("lamp.pdf", () => readFileSync("lamp.pdf"))));
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
      cwd: folder,
    });
    expect(JSON.parse(stdout)).toEqual({ kind: "read", text: "The lamp weighs seven kilograms." });
  });
});
