// Writes the manual pages and the completions, below a folder with the layout of /usr/share. Run by `npm run build`:
// write.js FOLDER PACKAGE.JSON [SECONDS since 1970, the date of the pages]

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { builtIn, loadAdapter } from "../../channels/loader.ts";
import { jsonSchema } from "../../config/index.ts";
import { standardTiming } from "../../ops/timing.ts";
import type { Io } from "../io.ts";
import { createProgram } from "../program.ts";
import { completionFor } from "./completion.ts";
import { definitionOf } from "./definition.ts";
import { commandManual, configurationManual } from "./manual.ts";

// Two builds of one commit are equal with an epoch: https://reproducible-builds.org/specs/source-date-epoch/
const [folder = "", packageFile = "", epoch] = process.argv.slice(2);
const { version } = JSON.parse(readFileSync(packageFile, "utf8")) as { version: string };

const nothing = () => {};
const io: Io = {
  timing: standardTiming,
  out: nothing,
  write: nothing,
  err: nothing,
  env: {},
  signal: new AbortController().signal,
  cwd: process.cwd(),
  interactive: false,
  terminal: false,
  onHangup: nothing,
  onCrash: nothing,
  onExit: nothing,
};
const program = definitionOf(createProgram(io, version, nothing));
const adapters = await Promise.all(
  builtIn.map(async (name) => [name, await loadAdapter(name, process.cwd())] as const),
);
const built = epoch === undefined ? new Date() : new Date(Number(epoch) * 1000);
const edition = { version, date: built.toISOString().slice(0, 10) };

const files = {
  "man/man1/bridgehead.1": commandManual(program, edition),
  "man/man5/bridgehead.yaml.5": configurationManual(jsonSchema(Object.fromEntries(adapters)), edition),
  "bash-completion/completions/bridgehead": completionFor("bash", program.name),
  "zsh/vendor-completions/_bridgehead": completionFor("zsh", program.name),
  "fish/vendor_completions.d/bridgehead.fish": completionFor("fish", program.name),
};
for (const [name, text] of Object.entries(files)) {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
