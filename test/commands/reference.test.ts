// The completions in real shells, and the manual pages under the checks of man and mandoc.

import { execFile, execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import type { Io } from "../../src/commands/io.ts";
import { createProgram } from "../../src/commands/program.ts";
import { offeredFor } from "../../src/commands/reference/completion.ts";
import {
  type CommandDefinition,
  definitionOf,
  eachCommand,
  type Shell,
} from "../../src/commands/reference/definition.ts";
import { bridgehead, root } from "../support/machine/command.ts";
import { describeReal, need } from "../support/machine/debian.ts";
import { newFolder } from "../support/resources.ts";

const folder = newFolder(afterAll);
const share = join(folder, "share");
execFileSync(
  process.execPath,
  ["--conditions=source", "src/commands/reference/write.ts", share, "package.json", "1767225600"],
  { cwd: root },
);

const program = definitionOf(createProgram({ out() {}, err() {} } as unknown as Io, "1.2.3", () => {}));
const commands: { readonly path: readonly string[]; readonly command: CommandDefinition }[] = [];
eachCommand(program, (command, path) => commands.push({ command, path }));

/** A line to complete, and what the shell must offer: all these, or with `only` these and nothing else. */
interface Question {
  readonly line: string;
  readonly offered: readonly string[];
  readonly only?: boolean;
}

/** The prompts in the definitions of all commands. */
const defined: Question[] = commands.flatMap(({ command, path }) => {
  const start = ["bridgehead", ...path].join(" ");
  const names = command.options.map(({ names: [long] }) => long);
  const first = command.arguments[0];
  return [
    ...(command.commands.length > 0
      ? [{ line: `${start} `, offered: command.commands.map(({ name }) => name), only: true }]
      : []),
    ...(first !== undefined && typeof first.candidates !== "string"
      ? [{ line: `${start} `, offered: first.candidates, only: true }]
      : []),
    { line: `${start} --`, offered: names },
    ...command.options.flatMap(({ names: [long], candidates, value }) =>
      value === null || typeof candidates === "string"
        ? []
        : [{ line: `${start} ${long} `, offered: candidates, only: true }],
    ),
  ];
});
const shortConfig = join(folder, "a-file.yaml");
writeFileSync(shortConfig, "");
const named = join(folder, "named.yaml");
// The shells would run what stands in the last name.
writeFileSync(
  named,
  'agents: { lamps: {}, phones: {} }\nchannels:\n  mail-a: { password: ${env:UNSET} }\n  texts.b: {}\n  "$(touch ran)": {}\n',
);
mkdirSync(join(folder, "bin"));
writeFileSync(
  join(folder, "bin/bridgehead"),
  `#!/bin/sh\nexec '${process.execPath}' --conditions=source '${root}src/main.ts' "$@"\n`,
  { mode: 0o755 },
);
/** Asked in real shells, too. */
const asked: Question[] = [
  { line: "bridgehead ", offered: program.commands.map(({ name }) => name), only: true },
  { line: "bridgehead inbox --s", offered: ["--since", "--state"], only: true },
  {
    line: "bridgehead inbox --state ",
    offered: ["held", "failed", "ignored", "waiting", "answered", "all"],
    only: true,
  },
  { line: `bridgehead pause --config ${named} `, offered: ["mail-a", "texts.b"], only: true },
  { line: `bridgehead outbox list -c ${named} --channel t`, offered: ["texts.b"], only: true },
  { line: `bridgehead policy test --config=${named} --agent `, offered: ["lamps", "phones"], only: true },
  { line: "bridgehead resume --config /nonexistent.yaml ", offered: [], only: true },
  { line: "bridgehead out", offered: ["outbox"], only: true },
  {
    line: "bridgehead outbox --limit 5 --json ",
    offered: ["list", "show", "retry", "release", "send-now", "drop", "resend"],
    only: true,
  },
  { line: "bridgehead platform agent ", offered: ["create", "update", "rotate-key", "list"] },
];

/** What each line's completion offers, in the order of the questions. */
const answers: Readonly<Record<Shell, (lines: readonly string[]) => Promise<string[][]>>> = {
  async bash(lines) {
    const ask = lines
      .map(
        (line) =>
          // "=" is a word of its own in COMP_WORDS.
          `ask ${line
            .replaceAll("=", " = ")
            .split(" ")
            .map((word) => `'${word}'`)
            .join(" ")}`,
      )
      .join("\n");
    return sections(
      await shell(
        "bash",
        ["--norc", "--noprofile", "-c"],
        [
          `source '${share}/bash-completion/completions/bridgehead'`,
          'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _bridgehead; printf "%s\\n" "${COMPREPLY[@]}" =end=; }',
          ask,
        ],
      ),
    );
  },
  async zsh(lines) {
    writeFileSync(join(folder, "lines"), lines.join("\n"));
    writeFileSync(join(folder, "inner.zsh"), zshInner);
    return sections(await shell("zsh", ["-f", "-c"], [zshOuter]));
  },
  async fish(lines) {
    return sections(
      await shell(
        "fish",
        ["--no-config", "-c"],
        [
          `source '${share}/fish/vendor_completions.d/bridgehead.fish'`,
          ...lines.map((line) => `complete -C '${line}' | string replace -r '\\t.*' ''; echo =end=`),
        ],
      ),
    );
  },
};

/** An interactive zsh at a pseudo-terminal, whose compadd prints what it would offer. */
const zshInner = `
PROMPT=
fpath=(${share}/zsh/vendor-completions $fpath)
autoload -Uz compinit
compinit -u -d ${folder}/zcompdump
bindkey '^I' complete-word
zstyle ':completion:*' insert-tab false
compadd() {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
  local -a offered
  builtin compadd -O offered "$@"
  (( $#offered )) && print -rl -- $offered >> ${folder}/offered
  return 1
}
finish() { print '=end=' >> ${folder}/offered; print -n END-OF-LIST; comppostfuncs=(finish) }
comppostfuncs=(finish)
print LOADED
`;
const zshOuter = `
zmodload zsh/zpty
: > ${folder}/offered
zpty inner zsh -f -i
zpty -w inner "source ${folder}/inner.zsh"
zpty -r -m inner text '*LOADED*'
while IFS= read -r line || [[ -n $line ]]; do
  zpty -w -n inner "$line"$'\\t'
  zpty -r -m inner text '*END-OF-LIST*'
  zpty -w -n inner $'\\x15'
done < ${folder}/lines
cat ${folder}/offered
`;

const shell = async (name: string, flags: readonly string[], script: readonly string[]): Promise<string> =>
  (
    await promisify(execFile)(name, [...flags, script.join("\n")], {
      cwd: folder,
      timeout: 120_000,
      env: { ...process.env, PATH: `${folder}/bin:${process.env["PATH"]}` },
    })
  ).stdout;
const sections = (text: string): string[][] =>
  text
    .split("=end=\n")
    .slice(0, -1)
    .map((one) => one.split("\n").filter((word) => word !== ""));

const missing: Readonly<Record<Shell, string | null>> = {
  bash: await need("bash", "/bin/bash"),
  zsh: await need("zsh", "/usr/bin/zsh"),
  fish: await need("fish", "/usr/bin/fish"),
};

it("completion offers every command, option and value", async () => {
  for (const { line, offered, only } of [...defined, ...asked]) {
    const found = await offeredFor(program, line.split(" ").slice(1), { cwd: folder, env: {} });
    const words = found === "files" ? [] : found.map(([word]) => word);
    if (only) expect([...words].sort(), line).toEqual([...offered].sort());
    else expect(words, line).toEqual(expect.arrayContaining([...offered]));
  }
});

describe.each(["bash", "zsh", "fish"] as const)("completion in %s", (name) => {
  describeReal(name, missing[name], () => {
    it("offers subcommands, names of the configuration and files", async () => {
      const lines = asked.map(({ line }) => line);
      const given = await answers[name]([...lines, "bridgehead run --config a-f", "bridgehead run --config=a-f"]);
      expect(given.length).toBe(lines.length + 2);
      asked.forEach(({ line, offered, only }, index) => {
        const words = given[index]?.map((word) => word.replace(/[= ]$/, ""));
        if (only) expect([...new Set(words)].sort(), line).toEqual([...offered].sort());
        else expect(words, line).toEqual(expect.arrayContaining([...offered]));
      });
      expect(given.at(-2)).toEqual(["a-file.yaml"]);
      expect(given.at(-1)?.map((word) => word.replace("--config=", ""))).toEqual(["a-file.yaml"]);
      expect(existsSync(join(folder, "ran"))).toBe(false);
    });

    it("is printed by the command", async () => {
      const file = {
        bash: "bash-completion/completions/bridgehead",
        zsh: "zsh/vendor-completions/_bridgehead",
        fish: "fish/vendor_completions.d/bridgehead.fish",
      };
      expect((await bridgehead(["completion", name])).out).toBe(readFileSync(join(share, file[name]), "utf8"));
    });
  });
});

const pages = ["man/man1/bridgehead.1", "man/man5/bridgehead.yaml.5"];
const noMandoc = await need("mandoc", "/usr/bin/mandoc");
const noMan = await need("man-db", "/usr/bin/man");

describe("manual pages", () => {
  const textOf = (page: string): string =>
    execFileSync("man", ["-l", "-Tutf8", join(share, page)], {
      encoding: "utf8",
      env: { ...process.env, MANWIDTH: "200", LC_ALL: "C.UTF-8" },
    }).replace(/.\u0008|\u001b\[[\d;]*m/g, "");

  describeReal("under man and mandoc", noMandoc ?? noMan, () => {
    it.each(pages)("%s has no warnings", (page) => {
      const file = join(share, page);
      expect(spawnSync("mandoc", ["-T", "lint", file], { encoding: "utf8" }).stdout).toBe("");
      const env = { ...process.env, LC_ALL: "C.UTF-8", MANROFFSEQ: "", MANWIDTH: "80" };
      const args = ["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", file];
      expect(spawnSync("man", args, { encoding: "utf8", env, maxBuffer: 2 ** 24 }).stderr).toBe("");
    });

    it("bridgehead(1) contains every command and every option", () => {
      const text = textOf("man/man1/bridgehead.1");
      for (const { command, path } of commands) {
        const at = path.length === 0 ? 0 : text.indexOf(`\n   ${path.join(" ")}\n`);
        expect(at, path.join(" ")).toBeGreaterThanOrEqual(0);
        const section = text.slice(at, text.indexOf("\n   ", at + 5) + 1 || undefined);
        const known = `${path.length === 0 ? text : textSection(text, at)}${section}`;
        for (const { names } of command.options.filter(({ names: [long] }) => long !== "--help"))
          for (const one of names) expect(known, `${path.join(" ")} ${one}`).toContain(one);
      }
    });

    it("bridgehead.yaml(5) contains every key that has a description", async () => {
      const text = textOf("man/man5/bridgehead.yaml.5").replace(/\s+/g, " ");
      const schema = JSON.parse((await bridgehead(["schema"])).out) as object;
      const described = descriptionsIn(schema);
      expect(described.length).toBeGreaterThan(150);
      expect(described.filter((one) => !text.includes(one.replace(/\s+/g, " ").slice(1)))).toEqual([]);
    });
  });

  it("are the same in two builds of one commit", () => {
    expect(readFileSync(join(share, "man/man1/bridgehead.1"), "utf8")).toContain(" 2026-01-01 ");
  });
});

/** The text of a section: up to the next heading. */
function textSection(text: string, start: number): string {
  const end = text.slice(start + 1).search(/\n {0,3}\S/);
  return end < 0 ? text.slice(start) : text.slice(start, start + 1 + end);
}

function descriptionsIn(value: unknown): string[] {
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    key === "description" && typeof inner === "string" ? [inner] : descriptionsIn(inner),
  );
}
