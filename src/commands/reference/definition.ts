// The command definitions as data: completion and the manual page read it.

import type { Argument, Option, Command as Program } from "commander";

/** Shells that `bridgehead completion` supports. */
export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** Names in the configuration, which completion reads from the file. */
export const liveNames = ["channels", "agents"] as const;
export type LiveName = (typeof liveNames)[number];

/** What can be typed as the value of an argument or option: one of some words, a name of the configuration, a file, or
 *  anything. */
export type Candidates = readonly string[] | LiveName | "file" | "any";

interface ArgumentDefinition {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  readonly variadic: boolean;
  readonly candidates: Candidates;
}

export interface OptionDefinition extends Pick<ArgumentDefinition, "description" | "required" | "candidates"> {
  /** As typed: `--config`, and `-c` when there is a short form. */
  readonly names: readonly [long: string, ...short: string[]];
  /** Name of the value; null for an option without one. */
  readonly value: string | null;
  /** The default as text; null without one. */
  readonly initial: string | null;
}

export interface CommandDefinition {
  readonly name: string;
  readonly description: string;
  readonly arguments: readonly ArgumentDefinition[];
  /** With --help, and --version of the program. */
  readonly options: readonly OptionDefinition[];
  readonly commands: readonly CommandDefinition[];
}

/** Reads the definitions that a program consists of. Hidden commands and options are left out. */
export function definitionOf(program: Program): CommandDefinition {
  const help = program.createHelp();
  return {
    name: program.name(),
    description: program.description(),
    arguments: help.visibleArguments(program).map((argument) => ({
      name: argument.name(),
      description: argument.description,
      required: argument.required,
      variadic: argument.variadic,
      candidates: candidatesOf(argument, argument.name(), argument.name() === "channel" ? "channels" : null),
    })),
    options: help.visibleOptions(program).map(optionOf),
    commands: help
      .visibleCommands(program)
      .filter((command) => command.name() !== "help")
      .map(definitionOf),
  };
}

function optionOf(option: Option): OptionDefinition {
  const value = /[<[]([^>\]]+)[>\]]/.exec(option.flags)?.[1] ?? null;
  const long = option.long ?? option.short ?? "";
  const { defaultValue, defaultValueDescription: described } = option as {
    readonly defaultValue?: unknown;
    readonly defaultValueDescription?: string;
  };
  const plain = ["string", "number"].includes(typeof defaultValue) ? String(defaultValue) : null;
  return {
    names: option.short !== undefined && option.short !== long ? [long, option.short] : [long],
    description: option.description,
    value,
    candidates:
      value === null
        ? []
        : candidatesOf(
            option,
            value,
            liveNames.find((one) => `${long}s` === `--${one}`),
          ),
    initial: described ?? plain,
    required: option.mandatory,
  };
}

/** The words of commander's `choices` or of a parser with `words` (program.ts); else by the name of the value. */
function candidatesOf(
  { argChoices, parseArg }: Argument | Option,
  name: string,
  live: LiveName | null = null,
): Candidates {
  const words = argChoices ?? (parseArg as { readonly words?: readonly string[] } | undefined)?.words;
  return words ?? live ?? (/file|folder|directory|path/.test(name) ? "file" : "any");
}

/** Calls `visit` with every command and the words that lead to it, without the program's name. */
export function eachCommand(
  command: CommandDefinition,
  visit: (command: CommandDefinition, path: readonly string[]) => void,
  path: readonly string[] = [],
): void {
  visit(command, path);
  for (const inner of command.commands) eachCommand(inner, visit, [...path, inner.name]);
}
