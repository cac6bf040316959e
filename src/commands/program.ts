// The command line: all commands with their options. A command's code is loaded on its call.

import { InvalidArgumentError, Option, Command as Program } from "commander";
import { causes } from "../domain/policy.ts";
import { draftStates } from "../domain/states.ts";
import { systemClock } from "../ops/clock.ts";
import { deferOptimization } from "../ops/memory.ts";
import type { Command, Io } from "./io.ts";
import { exitCodeHelp } from "./io.ts";
import { definitionOf, type Shell, shells } from "./reference/definition.ts";
import { readSince, sinceForms } from "./text.ts";

const defaultConfig = "/etc/bridgehead/bridgehead.yaml";

const draftStateNames = Object.keys(draftStates);
/** The states of messages that `inbox list` can show. */
const listedStates = ["held", "failed", "ignored", "waiting", "answered", "all"];
const conversationStates = ["attention", "waiting"];
const escalationActions = ["list", "show", "ack", "close", "resume", "note", "reply"] as const;

/** Parses `argv` (without node and script), runs the command, resolves to its exit code.
 *  Throws commander's CommanderError for an invalid command line and for --help. */
export async function runProgram(argv: readonly string[], io: Io, version: string): Promise<number> {
  if (argv[0] === "--version" || argv[0] === "-V")
    return (await import("./reference/version.ts")).run({ version, json: argv.includes("--json") }, io);
  let code = 0;
  const program = createProgram(io, version, (ended) => {
    code = ended;
  });
  await program.parseAsync([...argv], { from: "user" });
  return code;
}

/** Returns the definitions of all commands. A command that runs calls `ended` with its exit code. The
 *  completions and the manual page are generated from them. */
export function createProgram(io: Io, version: string, ended: (code: number) => void): Program {
  const calls =
    (load: () => Promise<Command<never>>, ...names: readonly string[]) =>
    async (...given: unknown[]): Promise<void> => {
      const named = names.map((name, index) => [name, given[index]] as const);
      const options = { ...(given[names.length] as object), ...Object.fromEntries(named) };
      const command = await load();
      ended(await command.run(options as never, io));
    };
  const program = new Program("bridgehead")
    .description("Connects mailboxes and phone numbers to AI agents, durably.")
    .version(
      version,
      "-V, --version",
      "print the versions of Bridgehead, Node.js, SQLite and the schemas (--json)",
    )
    .exitOverride()
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .showHelpAfterError("(see --help)")
    .addHelpText("after", exitCodeHelp());
  const add = (name: string, description: string) => {
    const command = program.command(name).description(description);
    return command;
  };
  const configured = (name: string, description: string) =>
    add(name, description).option("-c, --config <file>", "configuration file", defaultConfig);

  const repairing = (command: Program) =>
    command
      .option("--all", "retry, release, drop: everything with that code instead of single ids")
      .option("--code <code>", "list, --all: only those that stopped with this code (column CODE)")
      .option(
        "--reason <text>",
        "retry, release: the same as --code; drop: your reason, stored with each item",
      )
      .option("--dry-run", "retry, release, drop: only count what would be changed");

  const daemon = () => {
    deferOptimization();
    return import("./run.ts");
  };
  configured("run", "run the daemon").action(calls(daemon));
  add("reload", "for the systemd unit: reload the daemon's configuration and report the result").action(
    calls(() => import("./reload.ts")),
  );
  configured("console", "print a link that logs a browser in to the web console, once")
    .option("--json", "print JSON")
    .action(calls(() => import("./console.ts")));
  configured("log-level", "show or change the log level of the running daemon; a restart or reload resets it")
    .argument("[level]", "debug, info, warn or error", oneOf("debug", "info", "warn", "error"))
    .option("--for <time>", 'return to the configured level after this time ("10m")')
    .action(calls(() => import("./running/log-level.ts"), "level"));
  configured("check", "validate the configuration and report all problems at once")
    .option("--json", "print the result as JSON")
    .action(calls(() => import("./doctor/check.ts")));
  configured(
    "doctor",
    "find problems of the configuration, the machine, the store and the daemon, with remedies",
  )
    .option("--online", "also connect to the mailboxes, the providers and the platform; sends nothing")
    .option("--fix", "correct file modes and owners; changes nothing else")
    .option("--only <id>", "only findings with this id, such as file-mode")
    .option("--json", "print JSON")
    .action(calls(() => import("./doctor/run.ts")));
  configured(
    "support-bundle",
    "collect versions, findings and states for a bug report, without secrets, addresses and texts",
  )
    .argument("[file]", "archive to write; default: bridgehead-support-<time>.tar.gz")
    .option("--online", "include the findings of doctor --online")
    .action(calls(() => import("./doctor/bundle.ts"), "file"));
  add("demo", "try Bridgehead on this machine, without any account")
    .option("--once", "exit after the first reply")
    .option("--no-open", "do not open the console in a browser")
    .action(calls(() => import("./demo.ts")));
  add("init", "write a configuration: asks at most five questions and verifies each answer")
    .option(
      "-c, --config <file>",
      "file to write; default: /etc/bridgehead/bridgehead.yaml as root, else ./bridgehead.yaml",
    )
    .option("--address <address>", "email address of the mailbox")
    .option("--imap <server>", "IMAP server, host:port; default: discovered from the address")
    .option("--smtp <server>", "SMTP server, host:port; default: discovered from the address")
    .option("--user <name>", "user name of the account; default: the address")
    .option("--ca <file>", "PEM file of the private CA that signed the servers' certificates")
    .option("--imap-password-file <file>", "file with the password, for IMAP and SMTP")
    .option("--oauth-client-id <id>", "sign in at Google or Microsoft with this application instead")
    .option("--oauth-client-secret-file <file>", "file with the application's secret, if it has one")
    .option("--oauth-tenant <tenant>", "Microsoft: the tenant; default: common")
    .option("--model-url <url>", "OpenAI-compatible endpoint that answers")
    .option("--model-name <name>", "name of the model; default: the only one that the endpoint lists")
    .option("--model-key-file <file>", "file with the endpoint's API key")
    .option("--platform-url <url>", "agent platform that answers, instead of a model")
    .option("--platform-key-file <file>", "file with the agent's API key")
    .option("--responder <address>", "email address that is notified when a customer needs a human")
    .option("--no-responder", "nobody is notified")
    .option("--no-test-responder", "send no test notification to the responder")
    .option("--no-round-trip", "do not send a test mail to the mailbox")
    .addOption(
      new Option("--mode <mode>", "shadow: replies wait until they are released; live: they are sent")
        .choices(["shadow", "live"])
        .default("shadow"),
    )
    .option("--replace", "replace an existing file; a copy is kept")
    .option("--yes", "ask nothing: every answer is an option")
    .action(calls(() => import("./init/run.ts")));
  add("schema", "print the JSON Schema of the configuration, for editors").action(
    calls(async () => (await import("./doctor/check.ts")).schema),
  );
  const outboxActions = ["list", "show", "retry", "release", "drop", "resend"];
  repairing(configured("outbox", "list, show, retry, release or drop outbound messages (drafts)"))
    .argument("<action>", `${outboxActions.join(", ")} (the same as retry)`, oneOf(...outboxActions))
    .argument("[ids...]", "ids of drafts (outbox list)")
    .option(
      "--state <state>",
      `list: only drafts in this state: ${draftStateNames.join(", ")}`,
      oneOf(...draftStateNames),
    )
    .option("--channel <id>", "list, --all: only of this channel")
    .option("--since <time>", "list: only newer ones; a duration or a date", since)
    .option("--limit <n>", "list: maximum number of rows", count, 50)
    .option("--json", "print JSON")
    .action(calls(() => import("./messages/outbox.ts"), "action", "ids"));
  repairing(
    configured("retry", "ask and send again what was refused, failed or is held, in inbox and outbox"),
  )
    .option("--channel <id>", "only of this channel")
    .option("--json", "print JSON")
    .action(calls(async () => (await import("./messages/repair.ts")).retry));
  configured(
    "find",
    "find messages and conversations by address, number, subject, Message-ID or any other id",
  )
    .argument("<query...>", "an id, an address or a part of it, or words of the subject")
    .option("--since <time>", "only newer ones; a duration or a date", since)
    .option("--limit <n>", "maximum number of rows", count, 20)
    .option("--json", "print JSON")
    .action(calls(async () => (await import("./messages/conversation.ts")).find, "query"));
  configured("conversation", "list conversations, or show the complete history of one")
    .argument("<action>", "list or show", oneOf("list", "show"))
    .argument("[query...]", "show: id of the conversation, or anything that find accepts")
    .option(
      "--state <state>",
      "list: attention (held, failed or escalated) or waiting",
      oneOf(...conversationStates),
    )
    .option("--channel <id>", "list: only of this channel")
    .option("--since <time>", "list: only newer ones; a duration or a date", since)
    .option("--limit <n>", "list: maximum number of rows; show: of steps of each kind", count, 100)
    .option("--full", "show: print texts completely")
    .option("--json", "print JSON")
    .action(calls(() => import("./messages/conversation.ts"), "action", "query"));
  const inboxActions = ["list", "show", "retry", "release", "drop", "answer"];
  repairing(
    configured(
      "inbox",
      "list, show, retry, release or drop received messages; by default those without an answer; " +
        "answer --all and drop --all without a code: all that was held after a restore, in inbox and outbox",
    ),
  )
    .argument("<action>", `${inboxActions.join(", ")} (the same as retry)`, oneOf(...inboxActions))
    .argument("[ids...]", "numbers of messages (inbox list)")
    .option(
      "--state <state>",
      `list: only messages in this state: ${listedStates.join(", ")}; default: held, failed and ignored ones`,
      oneOf(...listedStates),
    )
    .option("--channel <id>", "list, --all: only of this channel")
    .option("--since <time>", "list: only newer ones; a duration or a date", since)
    .option("--limit <n>", "list: maximum number of rows", count, 50)
    .option("--raw", "show: print the message as it was received")
    .option("--json", "print JSON")
    .action(calls(() => import("./messages/inbox.ts"), "action", "ids"));
  configured("pause", "stop asking the agent and sending to customers; messages are still received")
    .argument("[channel]", "id of a channel; default: all channels")
    .option("--reason <text>", "reason, as status and log show it")
    .option("--for <time>", 'resume automatically after this time ("2h"); default: until `bridgehead resume`')
    .action(calls(async () => (await import("./channel.ts")).pause, "channel"));
  configured("resume", "end a pause, of one channel or of all channels")
    .argument("[channel]", "id of a channel; default: the pause of all channels")
    .action(calls(async () => (await import("./channel.ts")).resume, "channel"));
  configured("channel", "list the channels: mode, pauses, and what waits on each")
    .argument("<action>", "list", oneOf("list"))
    .option("--json", "print JSON")
    .action(calls(async () => (await import("./channel.ts")).list, "action"));
  configured("escalation", "list, show, acknowledge and answer escalations")
    .argument("<action>", escalationActions.join(", "), oneOf(...escalationActions))
    .argument("[number]", "number of an escalation (escalation list)")
    .option(
      "--state <state>",
      "list: only escalations in this state: open, acknowledged, closed",
      oneOf("open", "acknowledged", "closed"),
    )
    .option("--channel <id>", "list: only of this channel")
    .option("--since <time>", "list: only newer ones; a duration or a date", since)
    .option("--limit <n>", "list: maximum number of rows", count, 50)
    .option("--by <name>", "your name, as the responders see it", "an operator")
    .option("--text <text>", "note: text for the responders; reply: text for the customer")
    .option("--again", "note, reply: repeat a text that was enqueued within the last ten minutes")
    .option("--json", "list, show: print JSON")
    .action(calls(() => import("./escalation.ts"), "action", "number"));
  configured("start", "start a conversation: send a mail or text, or place a call")
    .requiredOption("--channel <id>", "channel that sends")
    .requiredOption("--to <address>", "email address of the recipient, or number with its country code")
    .option("--name <name>", "name of the recipient")
    .option("--subject <text>", "subject of the mail; default: the agent's")
    .option("--introduction <text>", "first message; default: the agent's introduction")
    .option("--context <text>", "context for the agent; the recipient does not see it")
    .option("--again", "repeat a text that was enqueued for this recipient within the last ten minutes")
    .option("--wait <time>", 'wait for the outcome, at most this long ("30s"), and print it')
    .option("--json", "print JSON")
    .action(calls(() => import("./start.ts")));
  configured(
    "policy",
    "policy test: show which responders an escalation would notify, when and how; sends nothing",
  )
    .argument("<action>", "test", oneOf("test"))
    .option("--topic <topic>", "topic of the escalation")
    .option("--agent <name>", "agent of the conversation; default: the channel's")
    .option("--channel <id>", "channel of the conversation; default: the first of the agent, or of the file")
    .option("--cause <cause>", `one of ${causes.join(", ")}`, oneOf(...causes), "topic")
    .option("--at <time>", "time with its UTC offset: 2026-12-24T23:30:00+01:00; default: now")
    .option("--json", "print JSON")
    .action(calls(() => import("./policy.ts"), "action"));
  add("platform", "run the embedded platform; `platform agent ...` manages its agents")
    .argument("[what]", "agent: manage the agents", oneOf("agent"))
    .argument(
      "[action]",
      "create, update, rotate-key or list",
      oneOf("create", "update", "rotate-key", "list"),
    )
    .argument("[agent]", "name or id of the agent")
    .option("-c, --config <file>", "YAML file with the agents")
    .option("--database <file>", "database of the platform", "platform.db")
    .addOption(
      new Option("--listen <address>", "host and port of the API")
        .argParser(hostAndPort)
        .default({ host: "127.0.0.1", port: 8026 }, "127.0.0.1:8026"),
    )
    .option("--public-url <url>", "URL for clients behind a proxy; default: from the Host header", webUrl)
    .option("--allow-private-webhooks", "allow webhooks to private addresses, also over plain http")
    .option("--from <file>", "create, update: YAML file with the agent's fields")
    .option(
      "--status <status>",
      "create, update: active, inactive, draft",
      oneOf("active", "inactive", "draft"),
    )
    .option("--public-name <name>", "create, update: name that customers see")
    .option("--instructions <text>", "create, update: instructions for the model")
    .option("--json", "agent: print JSON")
    .action(calls(() => import("./platform.ts"), "what", "action", "agent"));
  configured(
    "store",
    "store copy: copy the whole store to another database, and verify it; stop the daemon first",
  )
    .argument("<action>", "copy", oneOf("copy"))
    .requiredOption(
      "--to <store>",
      "postgres://user@host/database, sqlite:<path>, or a reference: ${env:NAME}",
    )
    .option("--json", "print JSON")
    .action(calls(() => import("./store/copy.ts"), "action"));
  const collect = (text: string, list: readonly string[] = []) => [...list, text];
  const person = (name: "erase" | "export", description: string) =>
    configured(name, description)
      .requiredOption(
        "--person <address>",
        "mail address or phone number; repeat it for further ones",
        collect,
      )
      .option("--json", "print JSON")
      .action(calls(async () => (await import("./store/person.ts"))[name]));
  person("erase", "erase everything that the store holds about one person")
    .option("--platform", "also delete the person on the platform; needs the service's environment")
    .option("--backups <folder>", "folder with backups to search; may be repeated", collect);
  person("export", "write everything that the store holds about one person into a new folder").requiredOption(
    "--to <folder>",
    "folder to create",
  );
  configured("migrate", "migrate the schema of the store; `run` does it at its start, too").action(
    calls(async () => (await import("./store/backup.ts")).migrate),
  );
  const copies = (name: "backup" | "verify" | "restore", description: string, file: string) =>
    (name === "verify" ? add(name, description) : configured(name, description))
      .argument("<file>", file)
      .option("--json", "print JSON")
      .action(calls(async () => (await import("./store/backup.ts"))[name], "file"));
  copies("backup", "copy the SQLite store to a new file, also while the daemon runs", "file to write");
  copies("verify", "check a backup or a store completely and report its defects", "file to check");
  copies("restore", "replace the SQLite store with a backup; stop the daemon first", "backup to restore");
  configured("health", "ask the running daemon whether it is ready; for monitors and containers")
    .option("--live", "ask only whether the process responds")
    .option("--quiet", "print nothing")
    .option("--json", "print the daemon's response")
    .action(calls(() => import("./reference/health.ts")));
  add("completion", "print the completions of a shell")
    .argument("<shell>", "bash, zsh or fish", oneOf(...shells))
    .action(async (shell: Shell) => {
      const { completionFor } = await import("./reference/completion.ts");
      io.out(completionFor(shell, definitionOf(program)));
    });
  return program;
}

function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError("It must be a whole number from 1 on.");
  return value;
}

function since(text: string): number {
  const at = readSince(text, systemClock.now());
  if (at === null) throw new InvalidArgumentError(`It must be ${sinceForms}.`);
  return at;
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

/** A parser of one of the words. Completions offer its `words`. */
function oneOf(...words: readonly string[]) {
  const parse = (text: string): string => {
    if (!words.includes(text)) throw new InvalidArgumentError(`It must be one of ${words.join(", ")}.`);
    return text;
  };
  return Object.assign(parse, { words });
}
