// The command line: all commands with their options. A command's code is loaded on its call.

import { InvalidArgumentError, Option, Command as Program } from "commander";
import { causes } from "../domain/policy.ts";
import { draftStates } from "../domain/states.ts";
import { deferOptimization } from "../ops/memory.ts";
import type { Command, Io } from "./io.ts";
import { exitCodeHelp } from "./io.ts";

const defaultConfig = "/etc/bridgehead/bridgehead.yaml";

const draftStateNames = Object.keys(draftStates);
/** The states of messages that `inbox list` can show. */
const listedStates = ["ignored", "held", "failed", "stored"];
const escalationActions = ["list", "show", "take", "close", "resume", "note", "reply"] as const;

/** Parses `argv` (without node and script), runs the command, resolves to its exit code.
 *  Throws commander's CommanderError for an invalid command line, for --help and for --version. */
export async function runProgram(argv: readonly string[], io: Io, version: string): Promise<number> {
  let code = 0;
  const calls =
    (load: () => Promise<Command<never>>, ...names: readonly string[]) =>
    async (...given: unknown[]): Promise<void> => {
      const named = names.map((name, index) => [name, given[index]] as const);
      const options = { ...(given[names.length] as object), ...Object.fromEntries(named) };
      const command = await load();
      code = await command.run(options as never, io);
    };
  const program = new Program("bridgehead")
    .description("Connects mailboxes and phone numbers to AI agents, durably.")
    .version(version, "-V, --version")
    .exitOverride()
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .showHelpAfterError("(see --help)")
    .addHelpText("after", exitCodeHelp());
  const add = (name: string, description: string) => {
    const command = program.command(name).description(description);
    return command;
  };
  const configured = (name: string, description: string) =>
    add(name, description).option("-c, --config <file>", "the configuration", defaultConfig);

  const daemon = () => {
    deferOptimization();
    return import("./run.ts");
  };
  configured("run", "run the daemon").action(calls(daemon));
  add(
    "reload",
    "for the systemd unit: have the daemon reload its configuration, and wait for the result",
  ).action(calls(() => import("./reload.ts")));
  configured("check", "check the configuration")
    .option(
      "--online",
      "connect to the mailboxes, the platform and the store too; sends nothing, changes nothing",
    )
    .option("--json", "print the result as JSON")
    .action(calls(() => import("./check.ts")));
  add("demo", "try it on this machine, without any account")
    .option("--once", "end after the first reply")
    .action(calls(() => import("./demo.ts")));
  add("schema", "print the configuration's JSON Schema, for editors").action(
    calls(async () => (await import("./check.ts")).schema),
  );
  configured("outbox", "list, show, resend or drop what is to be sent")
    .argument("<action>", "list, show, resend or drop", oneOf("list", "show", "resend", "drop"))
    .argument("[id]", "a draft, as listed")
    .option(
      "--state <state>",
      `list: only drafts in this state (${draftStateNames.join(", ")})`,
      oneOf(...draftStateNames),
    )
    .option("--channel <id>", "list: only this channel's")
    .option("--limit <n>", "list: at most this many", count, 50)
    .option("--json", "print JSON")
    .action(calls(() => import("./outbox.ts"), "action", "id"));
  configured("inbox", "list, show, answer or drop messages that were not answered")
    .argument("<action>", "list, show, answer or drop", oneOf("list", "show", "answer", "drop"))
    .argument("[ids...]", "messages, as listed")
    .option("--all", "answer, drop: everything held as answered-before-restore, replies included")
    .option(
      "--state <state>",
      `list: only messages in this state (${listedStates.join(", ")})`,
      oneOf(...listedStates),
    )
    .option("--code <code>", "list: only those refused or held with this code")
    .option("--channel <id>", "list, --all: only this channel's")
    .option("--limit <n>", "list: at most this many", count, 50)
    .option("--raw", "show: print the message as it arrived")
    .option("--json", "print JSON")
    .action(calls(() => import("./inbox.ts"), "action", "ids"));
  configured("escalation", "list, show and answer what humans are needed for")
    .argument("<action>", escalationActions.join(", "), oneOf(...escalationActions))
    .argument("[number]", "an escalation, as listed")
    .option("--state <state>", "list: only those", oneOf("open", "taken", "closed"))
    .option("--channel <id>", "list: only this channel's")
    .option("--limit <n>", "list: at most this many", count, 50)
    .option("--by <name>", "who acts, as the others are told", "an operator")
    .option("--text <text>", "note: for ourselves; reply: for the customer")
    .option("--again", "note, reply: although the very same words were left within the last ten minutes")
    .option("--json", "list, show: print JSON")
    .action(calls(() => import("./escalation.ts"), "action", "number"));
  configured("start", "write to a person first, or call them")
    .requiredOption("--channel <id>", "through this channel")
    .requiredOption("--to <address>", "the person's mailbox, or number with its country")
    .option("--name <name>", "the person's name")
    .option("--subject <text>", "of the mail; default: the agent's")
    .option("--introduction <text>", "the first words; default: the agent's")
    .option("--context <text>", "what the agent should know; the person does not see it")
    .option("--again", "although the same words were left for that person within the last ten minutes")
    .option("--wait <time>", 'wait so long ("30s") for the outcome, and print it')
    .option("--json", "print JSON")
    .action(calls(() => import("./start.ts")));
  configured("policy", "who is told of an escalation, when and by what? Tells nobody")
    .argument("<action>", "test", oneOf("test"))
    .option("--topic <topic>", "what it is about")
    .option("--agent <name>", "which agent's; default: the channel's")
    .option("--channel <id>", "on which channel; default: the agent's first, or the first of all")
    .option("--cause <cause>", "why", oneOf(...causes), "topic")
    .option("--at <time>", "when, with the offset: 2026-12-24T23:30:00+01:00; default: now")
    .option("--json", "print JSON")
    .action(calls(() => import("./policy.ts"), "action"));
  add("platform", "serve the External API from this machine; or, as `platform agent ...`, change its agents")
    .argument("[what]", "agent", oneOf("agent"))
    .argument(
      "[action]",
      "create, update, rotate-key or list",
      oneOf("create", "update", "rotate-key", "list"),
    )
    .argument("[agent]", "its name or id")
    .option("-c, --config <file>", "the agents")
    .option("--database <file>", "what the platform keeps", "platform.db")
    .addOption(
      new Option("--listen <address>", "host and port")
        .argParser(hostAndPort)
        .default({ host: "127.0.0.1", port: 8026 }, "127.0.0.1:8026"),
    )
    .option(
      "--public-url <url>",
      "where callers reach it, behind a proxy; default: where they say they do",
      webUrl,
    )
    .option("--allow-private-webhooks", "webhooks may reach private addresses, over plain http too")
    .option("--from <file>", "create, update: the agent's fields, in YAML")
    .option("--status <status>", "create, update", oneOf("active", "inactive", "draft"))
    .option("--public-name <name>", "create, update")
    .option("--instructions <text>", "create, update")
    .option("--json", "agent: print JSON")
    .action(calls(() => import("./platform.ts"), "what", "action", "agent"));
  configured("migrate", "bring the store's schema up to date").action(
    calls(async () => (await import("./backup.ts")).migrate),
  );
  const copies = (name: "backup" | "verify" | "restore", description: string, file: string) =>
    (name === "verify" ? add(name, description) : configured(name, description))
      .argument("<file>", file)
      .option("--json", "print JSON")
      .action(calls(async () => (await import("./backup.ts"))[name], "file"));
  copies("backup", "copy the SQLite store to a new file, while the daemon runs", "the file to write");
  copies(
    "verify",
    "read a backup or a store as a whole and report what is wrong with it",
    "the file to read",
  );
  copies(
    "restore",
    "put a backup in the place of the SQLite store; the daemon must be stopped",
    "the backup",
  );

  await program.parseAsync([...argv], { from: "user" });
  return code;
}

function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError("It must be a whole number from 1 on.");
  return value;
}

function hostAndPort(text: string): { readonly host: string; readonly port: number } {
  const [, v6, name, digits = ""] = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(text) ?? [];
  const host = v6 ?? name ?? "";
  const port = Number(digits);
  if (host === "" || digits === "" || port > 65_535)
    throw new InvalidArgumentError("It must be a host and a port, such as 127.0.0.1:8026.");
  return { host, port };
}

function webUrl(text: string): string {
  if (!/^https?:$/.test(URL.parse(text)?.protocol ?? ""))
    throw new InvalidArgumentError("It must be an address such as https://agents.example.com.");
  return text;
}

const oneOf =
  (...words: readonly string[]) =>
  (text: string): string => {
    if (!words.includes(text)) throw new InvalidArgumentError(`It must be one of ${words.join(", ")}.`);
    return text;
  };
