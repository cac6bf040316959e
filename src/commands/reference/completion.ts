// Completion in the shells. A shell asks `bridgehead complete` for the words that can follow on its command line, so that
// the three functions below contain no list of commands. It is hidden and has neither side effects nor messages.

import { resolve } from "node:path";
import { openFile } from "../../config/document.ts";
import { defaultConfig } from "../../domain/command-text.ts";
import { exitCodes, type Io } from "../io.ts";
import {
  type Candidates,
  type CommandDefinition,
  type LiveName,
  liveNames,
  type OptionDefinition,
  type Shell,
} from "./definition.ts";

/** A word that can follow, with its description. */
type OfferedWord = readonly [word: string, description: string];

/** What the incomplete word at the end of a command line can become. */
interface CompletedWord {
  readonly command: CommandDefinition;
  /** The option whose value is completed; undefined for another word. */
  readonly option: OptionDefinition | undefined;
  /** Number of arguments before. */
  readonly position: number;
  /** The value of --config, as it was typed. */
  readonly config: string | undefined;
}

/** `words`: those before the incomplete one. Bash splits `--config=FILE` into three. */
function placeIn(program: CommandDefinition, words: readonly string[]): CompletedWord {
  let [command, position] = [program, 0];
  let option: OptionDefinition | undefined;
  let config: string | undefined;
  for (const word of words.filter((one) => one !== "=")) {
    if (option) {
      if (option.names[0] === "--config") config = word;
      option = undefined;
    } else if (word.startsWith("-")) {
      const [, name, value] = /^([^=]*)=?(.*)$/s.exec(word) ?? [];
      const found = command.options.find(({ names }) => names.some((one) => one === name));
      if (word.includes("=")) config = found?.names[0] === "--config" ? value : config;
      else if (found && found.value !== null) option = found;
    } else {
      const inner = command.commands.find(({ name }) => name === word);
      [command, position] = inner ? [inner, 0] : [command, position + 1];
    }
  }
  return { command, option, position, config };
}

/** Returns the words that can follow, or `files`. `given`: the words behind the program's name; the last one is
 *  incomplete. */
export async function offeredFor(
  program: CommandDefinition,
  given: readonly string[],
  io: Pick<Io, "cwd" | "env">,
): Promise<readonly OfferedWord[] | "files"> {
  const last = given.at(-1) ?? "";
  const [, typed = "", value = last] = /^(--[\w-]+=)(.*)$/s.exec(last) ?? [];
  const words = given.slice(0, -1);
  const place = placeIn(program, typed === "" ? words : [...words, typed.slice(0, -1)]);
  const { command, option, position, config } = place;
  const begun = value === "=" ? "" : value;
  const matching = (found: readonly OfferedWord[]) =>
    found.flatMap(([word, text]) => (word.startsWith(begun) ? [[typed + word, text] as const] : []));
  const argument = command.arguments[position] ?? command.arguments.findLast(({ variadic }) => variadic);
  if (!option && begun.startsWith("-"))
    return matching(command.options.flatMap(({ names, description }) => names.map((one) => [one, description])));
  if (!option && command.commands.length > 0)
    return matching(command.commands.map(({ name, description }) => [name, description]));
  const candidates = (option ?? argument)?.candidates ?? "any";
  if (candidates === "file") return "files";
  return matching((await wordsOf(candidates, config, io)).map((word) => [word, ""]));
}

async function wordsOf(
  candidates: Candidates,
  config: string | undefined,
  io: Pick<Io, "cwd" | "env">,
): Promise<readonly string[]> {
  if (typeof candidates !== "string") return candidates;
  const live = liveNames.find((one) => one === candidates);
  return live === undefined ? [] : namesIn(live, config || defaultConfig, io);
}

/** Shells expand what is offered: other names are not printed. */
const plainName = /^[\w.-]{1,100}$/;

/** Reads names of the configuration; none when it cannot be read. */
async function namesIn(
  what: LiveName,
  config: string,
  { cwd, env }: Pick<Io, "cwd" | "env">,
): Promise<readonly string[]> {
  const file = config.replace(/^~(?=\/)/, env["HOME"] ?? "~");
  const opened = await openFile(resolve(cwd, file), { env: {} });
  if ("message" in opened) return [];
  const { [what]: block } = Object(opened.document.value) as Readonly<Record<string, unknown>>;
  return Object.keys(Object(block)).filter((name) => plainName.test(name));
}

/** Prints one word in each line, with a tab before its description; a line `:` stands for the names of files. */
export async function printCompletion(program: CommandDefinition, given: readonly string[], io: Io): Promise<number> {
  const offered = await offeredFor(program, given, io);
  const lines = offered === "files" ? [":"] : offered.map((one) => one.join("\t"));
  if (lines.length > 0) io.out(lines.join("\n"));
  return exitCodes.ok;
}

export const completionFor = (shell: Shell, name: string): string => functions[shell].replaceAll("NAME", name);

const functions: Readonly<Record<Shell, string>> = {
  bash: `# bash completion for NAME; printed by: NAME completion bash

_NAME() {
  local cur=\${COMP_WORDS[COMP_CWORD]} word
  COMPREPLY=()
  while IFS=$'\\t' read -r word _; do
    if [[ $word == ":" ]]; then
      local IFS=$'\\n'
      compopt -o filenames 2>/dev/null
      # "=" is a word of its own.
      COMPREPLY=($(compgen -f -- "\${cur#=}"))
    else
      COMPREPLY+=("$word")
    fi
  done < <("\${COMP_WORDS[0]}" complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -F _NAME NAME
`,
  zsh: `#compdef NAME
# Printed by: NAME completion zsh

_NAME() {
  local -a offered
  offered=(\${(f)"$($words[1] complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if [[ $offered[1] == ":" ]]; then
    compset -P '--*='
    _files
  else
    # A word and its description, separated by a colon.
    offered=("\${(@)offered//:/\\\\:}")
    offered=("\${(@)offered/$'\\t'/:}")
    _describe word offered
  fi
}

# Loaded by compinit from a folder of fpath, or by: source <(NAME completion zsh)
if [[ $funcstack[1] == _NAME ]]; then
  _NAME "$@"
else
  compdef _NAME NAME
fi
`,
  fish: `# fish completion for NAME; printed by: NAME completion fish

function __NAME_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l offered ($words[1] complete $words[2..] "$current" 2>/dev/null)
    if test "$offered" = ":"
        set -l option (string match -r -- '^--[^=]*=' "$current")
        __fish_complete_path (string replace -- "$option" "" "$current") | string replace -r '^' -- "$option"
    else
        string join \\n -- $offered
    end
end

complete -c NAME -f -a '(__NAME_complete)'
`,
};
