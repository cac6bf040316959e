// The definitions of all commands: arguments, options, their texts and their parsers.

import { readDuration } from "bridgehead/contract";
import { InvalidArgumentError, Option, type Command as Program } from "commander";
import { defaultConfig } from "../domain/command-text.ts";
import { causes } from "../domain/policy.ts";
import { draftStates } from "../domain/states.ts";
import { systemClock } from "../ops/clock.ts";
import { shells } from "./reference/definition.ts";
import { readSince, sinceForms } from "./text.ts";

type Define = (name: string, description: string) => Program;

export function defineCommands(define: Define): void {
  defineDaemon(define);
  defineDiagnosis(define);
  defineInit(define);
  defineBoxes(define);
  defineSearch(define);
  defineChannels(define);
  defineEscalation(define);
  definePlatform(define);
  defineStore(define);
  definePerson(define);
  define("completion", "print the completions of a shell").argument("<shell>", "bash, zsh or fish", oneOf(...shells));
}

const config = ["-c, --config <file>", "configuration file", defaultConfig] as const;
const json = ["--json", "print JSON"] as const;

const listed = (
  command: Program,
  rows: number,
  { ofChannel = "list: only of this channel", ofLimit = "list: maximum number of rows" } = {},
): Program =>
  command
    .option("--channel <id>", ofChannel)
    .option("--since <time>", "list: only newer ones; a duration or a date", since)
    .option("--limit <n>", ofLimit, count, rows)
    .option(...json);

/** The options that select what is repaired. `actions` begins the description of an option that only some actions have. */
const repairing = (
  command: Program,
  actions: string,
  ofReason = "the same as --code; drop: your reason, stored with each item",
): Program =>
  command
    .option("--all", `${actions}everything with that code`)
    .option("--code <code>", "only those that stopped with this code (column CODE of list)")
    .option("--reason <text>", ofReason)
    .option("--dry-run", `${actions}only count what would be changed`);

/** Parses a number of rows. */
function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError("It must be a whole number from 1 on.");
  return value;
}

/** Parses the value of --since to epoch milliseconds. */
function since(text: string): number {
  const at = readSince(text, systemClock.now());
  if (at === null) throw new InvalidArgumentError(`It must be ${sinceForms}.`);
  return at;
}

/** Parses a duration to milliseconds. */
function time(text: string): number {
  const ms = readDuration(text);
  if (!ms) throw new InvalidArgumentError('It must be a duration such as "30s", "1.5m", "2h" or "3d".');
  return ms;
}

/** Parses `127.0.0.1:8026`. */
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

function defineDaemon(define: Define): void {
  define("run", "run the daemon").option(...config);
  define("reload", "for the systemd unit: reload the daemon's configuration and report the result");
  define("service", "install the systemd service and wait until it is ready, show its state, or remove it")
    .argument("<action>", "install, uninstall or status", oneOf("install", "uninstall", "status"))
    .option(...config);
  define("console", "print a link that logs a browser in to the web console, once")
    .option(...config)
    .option(...json);
  define("log-level", "show or change the log level of the running daemon; a restart or reload resets it")
    .argument("[level]", "debug, info, warn or error", oneOf("debug", "info", "warn", "error"))
    .option(...config)
    .option("--for <time>", 'return to the configured level after this time ("10m")', time);
  define("health", "ask the running daemon whether it is ready; for monitors and containers")
    .option(...config)
    .option("--live", "ask only whether the process responds")
    .option("--quiet", "print nothing")
    .option("--json", "print the daemon's response");
}

function defineDiagnosis(define: Define): void {
  define("check", "validate the configuration and report all problems at once")
    .option(...config)
    .option("--json", "print the result as JSON");
  define("doctor", "find problems of the configuration, the machine, the store and the daemon, with remedies")
    .option(...config)
    .option("--online", "also connect to the mailboxes, the providers and the platform; sends nothing")
    .option("--fix", "correct file modes and owners; changes nothing else")
    .option("--only <id>", "only findings with this id, such as file-mode")
    .option(...json);
  define(
    "support-bundle",
    "collect versions, findings and states for a bug report, without secrets, addresses and texts",
  )
    .argument("[file]", "archive to write; default: bridgehead-support-<time>.tar.gz")
    .option(...config)
    .option("--online", "include the findings of doctor --online");
  define("schema", "print the JSON Schema of the configuration, for editors");
}

function defineInit(define: Define): void {
  define("demo", "try Bridgehead on this machine, without any account")
    .option("--once", "exit after the first reply")
    .option("--no-open", "do not open the console in a browser");
  define("init", "write a configuration: asks at most five questions and verifies each answer")
    .option(
      "-c, --config <file>",
      "file to write; default: /etc/bridgehead/bridgehead.yaml as root, where the folder exists; else ./bridgehead.yaml",
    )
    .option("--address <address>", "email address of the mailbox")
    .option("--imap <server>", "IMAP server, host:port or host:port/tls (implicit, starttls); default: discovered")
    .option("--smtp <server>", "SMTP server, host:port or host:port/tls (implicit, starttls); default: discovered")
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
    .option("--no-responder", "no responder is notified")
    .option("--no-test-responder", "send no test notification to the responder")
    .option("--no-round-trip", "do not send a test mail to the mailbox")
    .addOption(
      new Option("--mode <mode>", "shadow: replies wait until they are released; live: they are sent")
        .choices(["shadow", "live"])
        .default("shadow"),
    )
    .option("--replace", "replace an existing file at the end; a copy is kept")
    .option("--restart", "ask everything again: forget the verified answers of an interrupted run")
    .option("--yes", "ask nothing: every answer is an option");
}

function defineBoxes(define: Define): void {
  const box = (
    command: Program,
    actions: readonly string[],
    ids: string,
    states: readonly string[],
    ofStates: string,
  ) =>
    listed(repairing(command, `${actions.slice(2).join(", ")}: `), 50, {
      ofChannel: "list, --all: only of this channel",
    })
      .option(...config)
      .argument("<action>", `${actions.join(", ")} (the same as retry)`, oneOf(...actions))
      .argument("[ids...]", ids)
      .option(
        "--state <state>",
        `list, --all: only ${ofStates.replace("STATES", states.join(", "))}`,
        oneOf(...states),
      );
  box(
    define("outbox", "list, show, retry, release, send now or drop outbound messages (drafts)"),
    ["list", "show", "retry", "release", "send-now", "drop", "resend"],
    "ids of drafts (outbox list)",
    Object.keys(draftStates),
    "drafts in this state: STATES",
  ).option("--after <id>", "list: continue after this draft, with older ones");
  box(
    define(
      "inbox",
      "list, show, retry, release or drop received messages; by default those without an answer; " +
        "answer --all and drop --all without a code: all that was held after a restore, in inbox and outbox",
    ),
    ["list", "show", "retry", "release", "drop", "answer"],
    "numbers of messages (inbox list)",
    ["held", "failed", "ignored", "waiting", "answered", "all"],
    "messages in this state: STATES; default: held, failed and ignored ones",
  )
    .option("--after <number>", "list: continue after this message, with older ones")
    .option("--raw", "show: print the message as it was received");
  const retry = define("retry", "ask and send again what was refused, failed or is held, in inbox and outbox");
  repairing(retry, "", "the same as --code")
    .option(...config)
    .option("--channel <id>", "only of this channel")
    .option(...json);
  listed(define("opt-out", "opt persons out of a channel, undo it, or list the addresses that get nothing"), 50, {
    ofChannel: "add, remove: channel of the addresses; list: only of this channel",
  })
    .argument("<action>", "add, remove or list", oneOf("add", "remove", "list"))
    .argument("[persons...]", "add, remove: numbers of messages (inbox list), or with --channel addresses")
    .option(...config)
    .option("--reason <text>", "add, remove: your reason, which is stored");
}

function defineSearch(define: Define): void {
  define("find", "find messages and conversations by address, number, subject, Message-ID or any other id")
    .argument("<query...>", "an id, an address or a part of it, or words of the subject")
    .option(...config)
    .option("--since <time>", "only newer ones; a duration or a date", since)
    .option("--limit <n>", "maximum number of rows", count, 20)
    .option(...json);
  listed(define("conversation", "list conversations, or show the complete history of one"), 100, {
    ofLimit: "list: maximum number of rows; show: of steps of each kind",
  })
    .argument("<action>", "list or show", oneOf("list", "show"))
    .argument("[query...]", "show: id of the conversation, or anything that find accepts")
    .option(...config)
    .option("--state <state>", "list: attention (held, failed or escalated) or waiting", oneOf("attention", "waiting"))
    .option("--full", "show: print texts completely");
}

function defineChannels(define: Define): void {
  define("pause", "stop asking the agent and sending to customers; messages are still received")
    .argument("[channel]", "id of a channel; default: all channels")
    .option(...config)
    .option("--reason <text>", "reason, as status and log show it")
    .option("--for <time>", 'resume automatically after this time ("2h"); default: until `bridgehead resume`', time);
  define("resume", "end a pause, of one channel or of all channels")
    .argument("[channel]", "id of a channel; default: the pause of all channels")
    .option(...config);
  define("channel", "list the channels: mode, pauses, and what waits on each")
    .argument("<action>", "list", oneOf("list"))
    .option(...config)
    .option(...json);
  define("start", "start a conversation: send a mail or text, or place a call")
    .option(...config)
    .requiredOption("--channel <id>", "channel that sends")
    .requiredOption("--to <address>", "email address of the recipient, or number with its country code")
    .option("--name <name>", "name of the recipient")
    .option("--subject <text>", "subject of the mail; default: the agent's")
    .option("--introduction <text>", "first message; default: the agent's introduction")
    .option("--context <text>", "context for the agent; the recipient does not see it")
    .option("--again", "repeat a text that was enqueued for this recipient within the last ten minutes")
    .option("--wait <time>", 'wait for the outcome, at most this long ("30s"), and print it', time)
    .option(...json);
}

function defineEscalation(define: Define): void {
  const actions = ["list", "show", "ack", "close", "resume", "note", "reply"];
  listed(define("escalation", "list, show, acknowledge and answer escalations"), 50)
    .argument("<action>", actions.join(", "), oneOf(...actions))
    .argument("[number]", "number of an escalation (escalation list)")
    .option(...config)
    .option(
      "--state <state>",
      "list: only escalations in this state: open, acknowledged, closed",
      oneOf("open", "acknowledged", "closed"),
    )
    .option("--by <name>", "your name, as the responders see it", "an operator")
    .option("--text <text>", "note: text for the responders; reply: text for the customer")
    .option("--again", "note, reply: repeat a text that was enqueued within the last ten minutes");
  define("policy", "policy test: show which responders an escalation would notify, when and how; sends nothing")
    .option(...config)
    .argument("<action>", "test", oneOf("test"))
    .option("--topic <topic>", "topic of the escalation")
    .option("--agent <name>", "agent of the conversation; default: the channel's")
    .option("--channel <id>", "channel of the conversation; default: the first of the agent, or of the file")
    .option("--cause <cause>", `one of ${causes.join(", ")}`, oneOf(...causes), "topic")
    .option("--at <time>", "time with its UTC offset: 2026-12-24T23:30:00+01:00; default: now")
    .option(...json);
}

function definePlatform(define: Define): void {
  define("platform", "run the embedded platform; `platform agent ...` manages its agents")
    .argument("[what]", "agent: manage the agents", oneOf("agent"))
    .argument("[action]", "create, update, rotate-key or list", oneOf("create", "update", "rotate-key", "list"))
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
    .option("--status <status>", "create, update: active, inactive, draft", oneOf("active", "inactive", "draft"))
    .option("--public-name <name>", "create, update: name that customers see")
    .option("--instructions <text>", "create, update: instructions for the model")
    .option("--json", "agent: print JSON");
}

function defineStore(define: Define): void {
  define("store", "store copy: copy the whole store to another database, and verify it; stop the daemon first")
    .argument("<action>", "copy", oneOf("copy"))
    .option(...config)
    .requiredOption("--to <store>", "postgres://user@host/database, sqlite:<path>, or a reference: ${env:NAME}")
    .option(...json);
  define("migrate", "migrate the schema of the store; stop the daemon first; `run` does it at its start, too").option(
    ...config,
  );
  const copies = (name: "backup" | "verify" | "restore", description: string, file: string) =>
    define(name, description)
      .argument("<file>", file)
      .option(...json);
  copies(
    "backup",
    "copy the SQLite store (and the embedded platform) to a new file, also while the daemon runs",
    "file to write",
  ).option(...config);
  copies("verify", "check a backup or a store completely and report its defects", "file to check");
  copies("restore", "replace the SQLite store with a backup; stop the daemon first", "backup to restore").option(
    ...config,
  );
}

function definePerson(define: Define): void {
  const collect = (text: string, list: readonly string[] = []) => [...list, text];
  const person = (command: Program): Program =>
    command
      .option(...config)
      .requiredOption("--person <address>", "mail address or phone number; repeat it for further ones", collect)
      .option(...json);
  person(define("erase", "erase everything that the store holds about one person"))
    .option("--platform", "also delete the person on the platform; needs the service's environment")
    .option("--backups <folder>", "folder with backups to search; may be repeated", collect);
  person(define("export", "write everything that the store holds about one person into a new folder")).requiredOption(
    "--to <folder>",
    "folder to create",
  );
}
