// The real daemon of a world, as its own process, and the lines of its log.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, readFileSync, writeFileSync } from "node:fs";
import { finished } from "node:stream/promises";
import { expect } from "vitest";
import { runDemo } from "../../../src/commands/demo.ts";
import { eventually } from "../clock.ts";
import { commandIo } from "../commands/io.ts";
import { childEnv, root } from "../machine/command.ts";
import type { Finished, World } from "./mail-daemon.ts";

export interface Line {
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

export interface LoggedDaemon {
  /** The lines in which `word` occurs as a word: `grep -w word`. */
  grep(word: string): Line[];
  lines(): Line[];
  text(): string;
}

/** Starts the program on the configuration of the world, with its log in a file. `keys` are added to the configuration,
 *  `node` to the options of Node.js. */
export async function startDaemon(
  world: World,
  finish: Finished,
  { keys = {}, node = [] }: { readonly keys?: object; readonly node?: readonly string[] } = {},
): Promise<LoggedDaemon> {
  const { file } = await world.config();
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, "utf8")) as object), ...keys }));
  const child = spawn(
    process.execPath,
    [...node, "--conditions=source", `${root}src/main.ts`, "run", "--config", file],
    { env: { ...childEnv, ...world.env }, stdio: ["ignore", "ignore", "pipe"] },
  );
  const logFile = `${file}.log`;
  const written = createWriteStream(logFile);
  child.stderr.pipe(written);
  finish(async () => {
    if (child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
    await finished(written);
  });
  const text = () => readFileSync(logFile, "utf8");
  const lines = () =>
    text()
      .split("\n")
      .filter((line) => line.endsWith("}"))
      .map((line) => JSON.parse(line) as Line);
  await eventually(() => expect(lines().map(({ message }) => message)).toContain("ready"));
  await eventually(() => expect(lines().map(({ message }) => message)).toContain("channel connected"));
  return {
    text,
    lines,
    grep: (word) =>
      text()
        .split("\n")
        .filter((line) => new RegExp(`\\b${word}\\b`).test(line))
        .map((line) => JSON.parse(line) as Line),
  };
}

export const messages = (lines: readonly Line[]): string[] => lines.map(({ message }) => message);

// The demo in this process.

/** Starts the demo without opening a browser. Resolves with the login link of its console when it is printed; the demo ends
 *  with the test. */
export async function startDemo(onTestFinished: (after: () => Promise<void>) => void) {
  let out = "";
  const abort = new AbortController();
  const io = commandIo({
    out: (text) => void (out += `${text}\n`),
    err: (text) => void (out += `${text}\n`),
    signal: abort.signal,
    cwd: root,
    interactive: true,
  });
  const ended = runDemo({ open: false }, io);
  const end = async (): Promise<number> => {
    abort.abort();
    return ended;
  };
  onTestFinished(async () => void (await end()));
  await expect.poll(() => out, { timeout: 90_000 }).toMatch(/http\S+\/login\/\S+/);
  return { url: /http\S+\/login\/\S+/.exec(out)?.[0] ?? "", out: () => out, end };
}
