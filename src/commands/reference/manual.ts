// Generates the manual pages in the macros of man(7): bridgehead(1) from the command definitions, and
// bridgehead.yaml(5) from the JSON Schema of the configuration.

import type { Shape } from "../../config/json-schema.ts";
import { exitCodeMeanings } from "../io.ts";
import { wrapped } from "../text.ts";
import { type CommandDefinition, eachCommand, type OptionDefinition } from "./definition.ts";

interface Edition {
  readonly version: string;
  /** Date of the page: `2026-11-23`. */
  readonly date: string;
}

/** Text for roff: without escapes and control lines. */
const plain = (text: string): string =>
  text
    .replaceAll("\\", "\\e")
    .replace(/[-`'^~]/g, (sign) => ({ "-": "\\-", "`": "\\(ga", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti" })[sign]!)
    .replace(/^\./gm, "\\&.");
const bold = (text: string): string => `\\fB${plain(text)}\\fR`;
const italic = (text: string): string => `\\fI${plain(text)}\\fR`;
const entry = (term: string, ...lines: readonly string[]): string => [".TP", term, ...lines].join("\n");
/** A sentence begins with a capital letter, unless its first word is a value or an action, and ends with a full stop. */
const sentence = (text: string): string => {
  const ended = /[.?!]$/.test(text) ? text : `${text}.`;
  return plain(/^[a-z]+[\s,]/.test(ended) ? ended.charAt(0).toUpperCase() + ended.slice(1) : ended);
};

const header = (title: string, section: number, { version, date }: Edition): string =>
  [
    '.\\" Generated when the package is built: do not edit. Options are neither hyphenated nor justified.',
    `.TH ${title} ${section} ${date} "Bridgehead ${version}"`,
    ".nh",
    ".ad l",
  ].join("\n");

/** The rest of a broken line must not begin like a macro. */
const asText = (line: string): string => (line.startsWith(".") ? `\\&${line}` : line);

/** Joins the lines of a page and breaks long ones, because roff tools expect lines of at most 80 bytes. */
function page(lines: readonly string[]): string {
  const broken = lines
    .join("\n")
    .split("\n")
    .flatMap((line) => (line.startsWith(".") ? [line] : wrapped(line, 78).map(asText)));
  return `${broken.join("\n")}\n`;
}

function optionEntry({ names, value, description, initial, candidates, required }: OptionDefinition): string {
  const forms = [...names].reverse().map((name) => bold(name) + (value === null ? "" : ` ${italic(value)}`));
  const words = Array.isArray(candidates) && value !== null ? candidates : [];
  const facts = [
    ...(required ? ["required"] : []),
    ...(words.every((word) => description.includes(word)) ? [] : [`one of ${words.join(", ")}`]),
    ...(initial === null ? [] : [`default: ${initial}`]),
  ];
  const detail = facts.length === 0 ? "" : ` (${facts.join("; ")})`;
  return entry(forms.join(", "), sentence(`${description.replace(/\.$/, "")}${detail}`));
}

function synopsisOf(command: CommandDefinition, words: readonly string[]): string {
  const given = command.arguments.map(({ name, required, variadic }) => {
    const text = `${italic(name)}${variadic ? " ..." : ""}`;
    return required ? text : `[${text}]`;
  });
  const needed = command.options
    .filter(({ required }) => required)
    .map(({ names, value }) => `${bold(names[0])} ${italic(value ?? "")}`);
  return [bold(words.join(" ")), "[options]", ...needed, ...given]
    .join(" ")
    .replace("[options]", `[${italic("options")}]`);
}

export function commandManual(program: CommandDefinition, edition: Edition): string {
  const help = (command: CommandDefinition) => command.options.filter(({ names }) => names[0] !== "--help");
  const commands: string[] = [];
  eachCommand(program, (command, path) => {
    if (path.length === 0 || command.commands.length > 0) return;
    commands.push(
      [
        `.SS ${plain(path.join(" "))}`,
        synopsisOf(command, [program.name, ...path]),
        ".PP",
        sentence(command.description),
        ...command.arguments
          .filter(({ description }) => description !== "")
          .map(({ name, description }) => entry(italic(name), sentence(description))),
        ...help(command).map(optionEntry),
      ].join("\n"),
    );
  });
  return page([
    header("BRIDGEHEAD", 1, edition),
    `.SH NAME\n${program.name} \\- mailboxes and phone numbers to AI agents`,
    `.SH SYNOPSIS\n${bold(program.name)} ${italic("command")} [${italic("options")}] [${italic("arguments")}]`,
    ".SH DESCRIPTION",
    sentence(program.description),
    ".PP",
    "The daemon is started by",
    `${bold(`${program.name} run`)}.`,
    "The other commands work while it runs, unless their description says otherwise.",
    plain("They read the store that the configuration names, so run them as the daemon's user:"),
    `${bold("sudo -u bridgehead bridgehead inbox list")}.`,
    ".SH OPTIONS",
    ...program.options.map(optionEntry),
    `.SH COMMANDS\nEvery command has the option ${bold("--help")}.`,
    ...commands,
    ".SH EXIT STATUS",
    ...[...exitCodeMeanings()].map(([code, meaning]) => entry(bold(String(code)), sentence(meaning))),
    ".SH ENVIRONMENT",
    entry(
      bold("CREDENTIALS_DIRECTORY"),
      "Folder of the secrets that the configuration names as",
      `${bold("${credential:name}")}.`,
    ),
    entry(bold("NO_COLOR"), "Not empty: the output has no colors."),
    ".SH FILES",
    entry(italic("/etc/bridgehead/bridgehead.yaml"), "The configuration; see", ".BR bridgehead.yaml (5)."),
    entry(italic("/etc/bridgehead/secrets"), "One secret in each file; the service reads them."),
    entry(italic("/var/lib/bridgehead"), "The store."),
    ".SH SEE ALSO",
    ".BR bridgehead.yaml (5),",
    ".BR systemctl (1),",
    ".BR journalctl (1)",
  ]);
}

/** Returns bridgehead.yaml(5). `schema`: the JSON Schema of the whole file. */
export function configurationManual(schema: Shape, edition: Edition): string {
  const { channels, ...others } = schema.properties ?? {};
  const blocks = (channels?.additionalProperties as Shape | undefined)?.oneOf ?? [];
  const core = blocks.at(-1);
  const sections = Object.entries(others).map(([key, shape]) =>
    section(key, keysOf(shape, [key], isRequired(schema, key))),
  );
  const own = blocks.slice(0, -1).map((block) => {
    const adapter = String(block.properties?.["adapter"]?.const);
    const keys = Object.entries(block.properties ?? {})
      .filter(([key, shape]) => key !== "adapter" && !isSame(shape, core?.properties?.[key]))
      .flatMap(([key, shape]) => keysOf(shape, [key], isRequired(block, key)));
    return section(`${adapter} channels`, keys);
  });
  const common = Object.entries(core?.properties ?? {}).flatMap(([key, shape]) =>
    keysOf(shape, [key], isRequired(core, key)),
  );
  return page([
    header("BRIDGEHEAD.YAML", 5, edition),
    ".SH NAME\nbridgehead.yaml \\- configuration of bridgehead",
    ".SH DESCRIPTION",
    "One YAML file. Every key is listed with its path, its type and its default.",
    `A name in capitals stands for a name of your own: ${italic("ID")} for a channel, ${italic("NAME")} elsewhere; ${italic("[]")} for each entry of a list.`,
    ".PP",
    `Secrets are given by reference: ${bold("${env:NAME}")} (environment), ${bold("${file:/path}")} (a file) or ${bold("${credential:name}")} (systemd).`,
    `Durations have a unit: ${bold("500ms")}, ${bold("30s")}, ${bold("5m")}, ${bold("2h")}, ${bold("30d")}. Sizes too: ${bold("25MB")}.`,
    ".PP",
    `${bold("bridgehead check")} reports all errors of a file with line, key and remedy.`,
    `The keys under ${bold("channels.")}${italic("ID")} are those of all channels and those of the channel\\(aqs adapter.`,
    ...sections,
    section(
      "all channels",
      common,
      `${channels?.description ?? ""} These keys of channels.ID are those of every adapter.`,
    ),
    ...own,
    ".SH FILES",
    italic("/etc/bridgehead/bridgehead.yaml"),
    ".SH SEE ALSO",
    ".BR bridgehead (1)",
  ]);
}

const section = (name: string, keys: readonly string[], intro?: string): string =>
  [`.SH ${plain(name.toUpperCase())}`, ...(intro === undefined ? [] : [plain(intro)]), ...keys].join("\n");
const isRequired = (shape: Shape | undefined, key: string): boolean => shape?.required?.includes(key) === true;
const isSame = (a: Shape, b: Shape | undefined): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The entries of a key and of the keys below it. A block without a description has no entry of its own. */
function keysOf(shape: Shape, path: readonly string[], required = false): string[] {
  const facts = [typeOf(shape), ...(required ? ["required"] : []), ...initialOf(shape)].join("; ");
  const name = path.map((word, index) => {
    const dot = index === 0 || word === "[]" ? "" : ".";
    return `\\fB${dot}\\fR${/^[A-Z[]/.test(word) ? italic(word) : bold(word)}`.replace("\\fB\\fR", "");
  });
  const element = shape.items?.description === undefined ? [] : [sentence(shape.items.description)];
  const described = shape.description !== undefined;
  const here = described
    ? [
        entry(
          name.join("").replaceAll("\\fR\\f", "\\f"),
          `${plain(facts)}.`,
          ".br",
          sentence(shape.description ?? ""),
          ...element,
        ),
      ]
    : [];
  const items = shape.items?.properties && shape.items;
  const values = typeof shape.additionalProperties === "object" ? shape.additionalProperties : undefined;
  const inside = (inner: Shape | undefined, step: readonly string[]): string[] =>
    Object.entries(inner?.properties ?? {}).flatMap(([key, one]) =>
      keysOf(one, [...path, ...step, key], isRequired(inner, key)),
    );
  return [...here, ...inside(shape, []), ...inside(items, ["[]"]), ...inside(values, ["NAME"])];
}

function typeOf(shape: Shape): string {
  const { type, unit, secret, const: only, anyOf, items, minimum, maximum } = shape;
  const words = shape["enum"] as readonly unknown[] | undefined;
  if (only !== undefined) return flow(only);
  if (words !== undefined) return `one of ${words.join(", ")}`;
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(" or ");
  if (unit !== undefined) return unit;
  if (secret === true) return "secret";
  if (type === "array") return items === undefined ? "list" : `list: ${typeOf(items)}`;
  if (type === "object") return "block";
  if (type === "boolean") return "true or false";
  if (type !== "integer" && type !== "number") return type === "string" ? "text" : "any value";
  const kind = type === "integer" ? "whole number" : "number";
  if (typeof minimum !== "number") return kind;
  return typeof maximum === "number" && maximum < Number.MAX_SAFE_INTEGER
    ? `${kind}, ${minimum} to ${maximum}`
    : `${kind}, at least ${minimum}`;
}

function initialOf({ default: initial }: Shape): readonly string[] {
  if (initial === undefined || (typeof initial === "object" && JSON.stringify(initial) === "{}")) return [];
  return [`default: ${flow(initial)}`];
}

/** A value as it is written in one line of YAML. */
function flow(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "[]" : `[ ${value.map(flow).join(", ")} ]`;
  if (value !== null && typeof value === "object")
    return `{ ${Object.entries(value)
      .map(([key, inner]) => `${key}: ${flow(inner)}`)
      .join(", ")} }`;
  return value === "" ? '""' : typeof value === "string" ? value : JSON.stringify(value);
}
