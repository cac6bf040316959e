// The command line: all commands with their options. A command's code is loaded on its call.

import { Command as Program } from "commander";
import { nearest } from "../config/nearest.ts";
import { deferOptimization } from "../ops/memory.ts";
import { standardTiming } from "../ops/timing.ts";
import { defineCommands } from "./command-line.ts";
import { type Command, exitCodeHelp, exitCodes, type Io, runCommand } from "./io.ts";
import { definitionOf, type Shell } from "./reference/definition.ts";

const code: Readonly<Record<string, () => Promise<Command<never>>>> = {
  run: async () => {
    deferOptimization();
    return (await import("./run.ts")).runDaemon;
  },
  reload: async () => (await import("./reload.ts")).reloadDaemon,
  service: async () => (await import("./running/systemd.ts")).service,
  console: async () => (await import("./http.ts")).printLoginLink,
  "log-level": async () => (await import("./running/log-level.ts")).logLevel,
  health: async () => (await import("./http.ts")).health,
  check: async () => (await import("./doctor/check.ts")).checkConfig,
  doctor: async () => (await import("./doctor/run.ts")).doctor,
  "support-bundle": async () => (await import("./doctor/bundle.ts")).supportBundle,
  schema: async () => (await import("./doctor/check.ts")).printSchema,
  demo: async () => (await import("./demo.ts")).runDemo,
  init: async () => (await import("./init/run.ts")).init,
  outbox: async () => (await import("./messages/outbox.ts")).outbox,
  inbox: async () => (await import("./messages/inbox.ts")).inbox,
  retry: async () => (await import("./messages/repair.ts")).retryMessages,
  "opt-out": async () => (await import("./messages/opt-out.ts")).optOut,
  find: async () => (await import("./messages/conversation.ts")).findMessages,
  conversation: async () => (await import("./messages/conversation.ts")).conversation,
  pause: async () => (await import("./channel.ts")).pauseChannel,
  resume: async () => (await import("./channel.ts")).resumeChannel,
  channel: async () => (await import("./channel.ts")).listChannels,
  start: async () => (await import("./start.ts")).startConversation,
  escalation: async () => (await import("./escalation.ts")).escalation,
  policy: async () => (await import("./policy.ts")).testPolicy,
  platform: async () => (await import("./platform.ts")).platform,
  store: async () => (await import("./store/copy.ts")).copyToOther,
  migrate: async () => (await import("./store/backup.ts")).migrateStore,
  erase: async () => (await import("./store/person.ts")).erasePersonData,
  export: async () => (await import("./store/person.ts")).exportPersonData,
  backup: async () => (await import("./store/backup.ts")).backup,
  verify: async () => (await import("./store/backup.ts")).verify,
  restore: async () => (await import("./store/backup.ts")).restore,
};

/** Parses `argv` (without node and script), runs the command, resolves to its exit code. Without `timing` in `given` the
 *  standard durations apply. Throws commander's CommanderError for an invalid command line and for --help. */
export async function runProgram(
  argv: readonly string[],
  given: Omit<Io, "timing"> & Partial<Pick<Io, "timing">>,
  version: string,
): Promise<number> {
  const io: Io = { timing: standardTiming, ...given };
  if (argv[0] === "--version" || argv[0] === "-V") {
    const { migrations } = await import("../store/migrate.ts");
    const { sqliteVersion } = await import("../store/sqlite.ts");
    const { node } = process.versions;
    const versions = { bridgehead: version, node, sqlite: sqliteVersion(), schema: migrations.length };
    if (argv.includes("--json")) io.out(JSON.stringify(versions));
    else for (const [name, value] of Object.entries(versions)) io.out(`${name} ${value}`);
    return exitCodes.ok;
  }
  let code = 0;
  const program = createProgram(io, version, (ended) => {
    code = ended;
  });
  if (argv[0] === "complete") {
    const { printCompletion } = await import("./reference/completion.ts");
    return printCompletion(definitionOf(program), argv.slice(1), io);
  }
  await program.parseAsync([...argv], { from: "user" });
  return code;
}

/** The commands that show the state of the daemon, of its channels and of its service. */
const states = "health, channel list or service status";

/** Returns the definitions of all commands. A command that runs calls `ended` with its exit code. The
 *  completions and the manual page are generated from them. */
export function createProgram(io: Io, version: string, ended: (code: number) => void): Program {
  const program = new Program("bridgehead")
    .description("Connects mailboxes and phone numbers to AI agents, durably.")
    .version(version, "-V, --version", "print the versions of Bridgehead, Node.js, SQLite and the schemas (--json)")
    .exitOverride()
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .showHelpAfterError("(see --help)")
    .addHelpText("after", exitCodeHelp());
  program.on("command:*", ([word = ""]: readonly string[]) => {
    // The most similar word is start.
    const guess = word === "status" ? states : nearest(word, [...program.commands.map((one) => one.name()), "help"]);
    const hint = guess === undefined ? "" : `\n(Did you mean ${guess}?)`;
    program.error(`error: unknown command '${word}'${hint}`, { code: "commander.unknownCommand" });
  });
  defineCommands((name, description) => {
    const command = program.command(name).description(description);
    return command.action(async (...given: unknown[]) => {
      const named = command.registeredArguments.map((one, index) => [one.name(), given[index]] as const);
      const options = { ...(given[named.length] as object), ...Object.fromEntries(named) };
      if (name === "completion") {
        const { completionFor } = await import("./reference/completion.ts");
        return io.out(completionFor((options as unknown as { readonly shell: Shell }).shell, program.name()));
      }
      const [, ...further] = named
        .slice(named.findIndex(([argument]) => argument === "action"))
        .map(([, value]) => value);
      if ((options as { action?: unknown }).action === "list" && further.flat().some((value) => value !== undefined))
        command.error(`error: ${name}: list takes no argument after it (find searches)`);
      const load = code[name];
      if (!load) throw new Error(`the command ${name} has no code`);
      return ended(await runCommand(await load(), options as never, io));
    });
  });
  return program;
}
