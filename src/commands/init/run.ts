// bridgehead init: asks at most five questions, verifies each answer by using it, and writes the configuration.
// Verified answers are kept in a private file until the end, so that an interrupted run continues. Nothing else is
// written before all answers are complete and a mail has made its round trip.

import { existsSync, statSync } from "node:fs";
import { access, constants, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { loadAdapter } from "../../channels/loader.ts";
import { loadConfig } from "../../config/index.ts";
import { commandText, defaultConfig } from "../../domain/command-text.ts";
import { newToken } from "../../ops/clock.ts";
import {
  CommandFailure,
  exitCodes,
  fail,
  type Io,
  isService,
  problemLine,
  type Requesting,
  secretsFolder,
  serviceFolder,
} from "../io.ts";
import {
  type Answers,
  type CompleteAnswers,
  forget,
  keep,
  keptPath,
  plan,
  readKept,
  writeConfiguration,
  writeSecrets,
} from "./answers.ts";
import { type Lookup, systemLookup } from "./discovery.ts";
import { createPrompter, type Prompter, Stopped } from "./prompter.ts";
import { askAnswerer, askMailbox, askResponder } from "./questions.ts";
import { roundTrip } from "./round-trip.ts";
import { type SignInEndpoints, signInEndpoints } from "./sign-in.ts";
import type { Verifying } from "./verify.ts";

export interface InitOptions {
  readonly config?: string;
  readonly address?: string;
  readonly imap?: string;
  readonly smtp?: string;
  readonly user?: string;
  /** File of a private CA. */
  readonly ca?: string;
  readonly imapPasswordFile?: string;
  readonly oauthClientId?: string;
  readonly oauthClientSecretFile?: string;
  readonly oauthTenant?: string;
  readonly modelUrl?: string;
  readonly modelName?: string;
  readonly modelKeyFile?: string;
  readonly platformUrl?: string;
  readonly platformKeyFile?: string;
  /** False: `--no-responder`. */
  readonly responder?: string | false;
  readonly mode: "live" | "shadow";
  readonly replace?: boolean;
  /** Forgets the answers of an interrupted run. */
  readonly restart?: boolean;
  /** False: `--no-round-trip`, `--no-test-responder`. */
  readonly roundTrip: boolean;
  readonly testResponder: boolean;
  /** Asks nothing, also on a terminal. */
  readonly yes?: boolean;
}

/** The network, which tests replace by local servers. */
export interface InitNetwork {
  lookup(io: Requesting): Lookup;
  readonly endpoints: SignInEndpoints;
}

/** What every question of the dialogue uses. */
export interface InitDialogue extends Verifying {
  readonly options: InitOptions;
  readonly prompter: Prompter;
  readonly network: InitNetwork;
  /** The content of a file that an option names, without its last line break. */
  read(option: string, path: string): Promise<string>;
}

const realNetwork: InitNetwork = { lookup: systemLookup, endpoints: signInEndpoints };

export async function init(options: InitOptions, io: Io, network = realNetwork): Promise<number> {
  const path = resolve(io.cwd, options.config ?? defaultPath());
  const prompter = await createPrompter(io, io.interactive && options.yes !== true);
  try {
    await initialize(path, options, io, prompter, network);
    return exitCodes.ok;
  } catch (error) {
    if (error instanceof Stopped || io.signal.aborted) {
      const kept = existsSync(keptPath(path));
      io.err(`stopped; ${path} was not written`);
      if (kept) io.err(`run the same command again to continue: verified answers are kept in ${keptPath(path)}`);
      return exitCodes.failed;
    }
    if (!(error instanceof CommandFailure)) throw error;
    prompter.report("failed", error.message);
    return error.exitCode;
  }
}

const defaultPath = (): string =>
  process.getuid?.() === 0 && existsSync(serviceFolder) ? defaultConfig : "bridgehead.yaml";

async function initialize(
  path: string,
  options: InitOptions,
  { signal, timing, cwd, env }: Io,
  prompter: Prompter,
  network: InitNetwork,
): Promise<void> {
  const dialogue: InitDialogue = {
    options,
    prompter,
    network,
    signal,
    timing,
    cwd,
    read: (...of) => readOption(cwd, ...of),
  };
  prompter.begin("init: connects a mailbox to an agent");
  refuseMissing(options, prompter);
  const replaces = await mayReplace(path, options, prompter);
  await makeFolder(dirname(path));
  if (options.restart) await forget(path);
  const kept = withoutOverridden(await readKept(path), options);
  let answers = kept;
  if (Object.keys(kept).length > 0)
    prompter.report(
      "note",
      `continuing: the answers about ${summary(kept)} of the earlier run are kept (--restart asks again)`,
    );
  for (const ask of [askMailbox, askAnswerer, askResponder]) {
    answers = await ask(answers, dialogue);
    signal.throwIfAborted();
    await keep(path, answers);
  }
  const complete = answers as CompleteAnswers;
  const planned = await plan(path, complete, options.mode);
  if (options.roundTrip) await checkRoundTrip(complete, dialogue);
  await writeSecrets(path, planned);
  await refuseInvalid(path, planned.text, env);
  const old = await writeConfiguration(path, planned.text, replaces).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "EEXIST") fail(`${path} was created by another program: it was not changed`);
    throw error;
  });
  await forget(path);
  prompter.report("done", `written: ${path}`);
  if (old !== null) prompter.report("note", `the earlier configuration is kept as ${old}`);
  if (planned.text.includes("mode: shadow"))
    prompter.report(
      "note",
      `mode: shadow: replies wait for you; see ${commandText("outbox list --state held", path)}, and ${commandText("outbox release <id>", path)}`,
    );
  prompter.end(nextCommands(path));
}

const nextCommands = (path: string): string =>
  isService(path)
    ? `next:  ${commandText("service install", path)}\n       journalctl -u bridgehead -f`
    : `next:  ${commandText("doctor --online", path)}\n       ${commandText("run", path)}`;

/** Reports every option that is missing, when no question can be asked. */
function refuseMissing(options: InitOptions, { asks }: Prompter): void {
  if (asks) return;
  const { address, imapPasswordFile, oauthClientId, modelUrl, platformUrl, platformKeyFile, responder } = options;
  const missing = [
    ...(address === undefined ? ["--address <address>"] : []),
    ...((imapPasswordFile ?? oauthClientId) ? [] : ["--imap-password-file <file> or --oauth-client-id <id>"]),
    ...((modelUrl ?? platformUrl) ? [] : ["--model-url <url> or --platform-url <url>"]),
    ...(platformUrl !== undefined && platformKeyFile === undefined ? ["--platform-key-file <file>"] : []),
    ...(responder === undefined ? ["--responder <address> or --no-responder"] : []),
  ];
  if (missing.length > 0) fail(`without a terminal these options are required: ${missing.join("; ")}`, exitCodes.usage);
}

async function mayReplace(path: string, { replace }: InitOptions, prompter: Prompter): Promise<boolean> {
  if (!existsSync(path)) return false;
  if (statSync(path).isDirectory()) fail(`${path} is a folder: name a file with --config`, exitCodes.usage);
  if (replace) return true;
  if (!prompter.asks) fail(`${path} exists and was not changed: give --replace (a copy is kept) or another --config`);
  if (await prompter.confirm(`${path} exists. Replace it at the end? A copy is kept.`)) return true;
  fail(`${path} was not changed: give another file with --config`);
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await access(folder, constants.W_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    fail(`${folder} cannot be written (${code}): use sudo, or name another file with --config`);
  }
}

/** Drops kept answers that an option of this run answers anew. */
function withoutOverridden(kept: Answers, options: InitOptions): Answers {
  const { address, imap, smtp, user, imapPasswordFile, oauthClientId, modelUrl, platformUrl } = options;
  const mailbox = [imap, smtp, user, imapPasswordFile, oauthClientId].some((one) => one !== undefined);
  const otherAddress = address !== undefined && address.toLowerCase() !== kept.address;
  const { answerer, responder, ...mail } = kept;
  return {
    ...(otherAddress || mailbox ? {} : mail),
    ...(answerer !== undefined && modelUrl === undefined && platformUrl === undefined && { answerer }),
    ...(responder !== undefined && options.responder === undefined && { responder }),
  };
}

const summary = ({ address, answerer, responder }: Answers): string =>
  [
    ...(address === undefined ? [] : [address]),
    ...(answerer === undefined ? [] : [`the ${answerer.kind} at ${answerer.url}`]),
    ...(responder === undefined ? [] : ["the responder"]),
  ].join(", ");

async function readOption(cwd: string, option: string, path: string): Promise<string> {
  const text = await readFile(resolve(cwd, path), "utf8").catch((error: NodeJS.ErrnoException) => {
    fail(`${option}: ${path} cannot be read (${error.code})`);
  });
  const value = text.replace(/\r?\n$/, "");
  if (value === "") fail(`${option}: ${path} is empty`);
  return value;
}

async function checkRoundTrip(answers: CompleteAnswers, dialogue: InitDialogue): Promise<void> {
  const { options, prompter } = dialogue;
  const responder = options.testResponder ? answers.responder : null;
  prompter.report("note", `sending a mail to ${answers.address} itself; this may take a minute`);
  const result = await roundTrip(answers, responder, dialogue);
  if (!result.ok)
    fail(
      `${result.reason}\n${result.remedy}\nNothing was written; run the same command again, or with --no-round-trip to write it nevertheless`,
    );
  const notified = responder === null ? "" : `; a test notification went to ${responder}`;
  prompter.report("done", `the mail came back after ${result.value.toFixed(1)} s and would not be answered${notified}`);
}

/** Loads the configuration under another name before it takes its place. */
async function refuseInvalid(path: string, text: string, env: Io["env"]): Promise<void> {
  const draft = `${path}.${newToken(6)}`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx" });
    const credentials = isService(path) ? { credentialsDirectory: secretsFolder(path) } : {};
    const loaded = await loadConfig(draft, { env, adapters: loadAdapter, ...credentials });
    if (loaded.ok) return;
    fail(["the configuration is invalid:", ...loaded.problems.map(problemLine)].join("\n"));
  } finally {
    await rm(draft, { force: true });
  }
}
