// A command in a pseudo-terminal, as an operator uses it: `script` of util-linux connects it to two pipes.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { expect, onTestFinished } from "vitest";
import { childEnv, root } from "./command.ts";

export interface Terminal {
  /** Resolves when the text is on the screen, below what earlier calls have seen. */
  sees(text: string): Promise<void>;
  /** Types a line and Enter. */
  enter(text: string): void;
  /** Types keys: `"\x03"` is Ctrl-C. */
  press(keys: string): void;
  /** Everything that was printed. */
  screen(): string;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
}

/** Starts `bridgehead ...` in `folder`. */
export function openTerminal(
  folder: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Terminal {
  const words = [process.execPath, "--conditions=source", `${root}src/main.ts`, ...args];
  const command = words.map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["-q", "-e", "-c", `stty rows 50 cols 200 && exec ${command}`, "/dev/null"], {
    cwd: folder,
    env: { ...childEnv, HOME: folder, TERM: "xterm", SHELL: "/bin/sh", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let printed = "";
  let seen = 0;
  child.stdout.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  const screen = () => stripVTControlCharacters(printed);
  return {
    async sees(text) {
      await expect.poll(() => screen().slice(seen), { timeout: 60_000 }).toContain(text);
      seen = screen().indexOf(text, seen) + text.length;
    },
    enter: (text) => void child.stdin.write(`${text}\r`),
    press: (keys) => void child.stdin.write(keys),
    screen,
    ended: once(child, "exit").then(([code]) => code as number | null),
  };
}
