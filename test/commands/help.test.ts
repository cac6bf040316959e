// The texts of --help agree with what the commands do.

import { expect, test } from "vitest";
import { exitCodeHelp, type Io } from "../../src/commands/io.ts";
import { createProgram } from "../../src/commands/program.ts";
import { definitionOf, eachCommand } from "../../src/commands/reference/definition.ts";

const program = definitionOf(createProgram({ out() {}, err() {} } as unknown as Io, "1.2.3", () => {}));

test("lists every exit code once", () => {
  const codes = exitCodeHelp().match(/^ {2}\d+/gm);
  expect(codes).toEqual([...new Set(codes)]);
  expect(exitCodeHelp()).toContain(
    "65  the store was written by a newer version, or the store or the backup is damaged",
  );
});

test("names only actions and options that the command has", () => {
  const wrong: string[] = [];
  eachCommand(program, (command, path) => {
    const known = new Set([
      ...command.arguments.flatMap(({ candidates }) => (typeof candidates === "string" ? [] : candidates)),
      ...command.options.flatMap(({ names, candidates }) => [
        ...names,
        ...(typeof candidates === "string" ? [] : candidates),
      ]),
    ]);
    // "list, --all: ...": the actions and options that the description is about.
    for (const { names, description } of command.options)
      for (const part of description.split("; ")) {
        const subjects = /^((?:--)?[a-z-]+(?:, (?:--)?[a-z-]+)*): /.exec(part)?.[1]?.split(", ") ?? [];
        for (const subject of subjects)
          if (!known.has(subject) && subject !== "default") wrong.push(`${path.join(" ")} ${names[0]}: ${subject}`);
      }
  });
  expect(wrong).toEqual([]);
});
