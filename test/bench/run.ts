// npm run bench [-- --quick] [-- --only burst,single] [-- --report [file]]: measures the built daemon against bare scripts
// on this machine. Absolute figures depend on the machine; ratios are comparable. A missed goal is a result and exits with
// 0. A lost message or a second reply is a defect and exits with 1.

import { existsSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { type Built, build } from "./built.ts";
import { clock, noTally, sleep, sum, type Tally } from "./clock.ts";
import { costs } from "./costs/costs.ts";
import { limitsOf, measuredCosts } from "./costs/limits.ts";
import { escalations } from "./escalation/escalations.ts";
import { syncTime } from "./machine/disk.ts";
import { waitUntilQuiet, warnWhenBusy } from "./machine/quiet.ts";
import { burst } from "./mail/burst.ts";
import { kills } from "./mail/kills.ts";
import { largeMails, memory } from "./mail/memory.ts";
import { type MailServers, startMailServers } from "./mail/servers.ts";
import { single } from "./mail/single.ts";
import { soak } from "./mail/soak.ts";
import { startToReply } from "./mail/start.ts";
import { statements } from "./mail/statements.ts";
import { steady } from "./mail/steady.ts";
import { paths } from "./path.ts";
import { type PhoneFixture, startPhoneFixture } from "./phone/fixture.ts";
import { sms } from "./phone/sms.ts";
import { voice } from "./phone/voice.ts";
import { longLists } from "./platform/long-lists.ts";
import { servedRates } from "./platform/rates.ts";
import { publish } from "./publish.ts";
import { printSection, printSummary, printTable, sections } from "./report.ts";
import { architectures } from "./store/architectures.ts";
import { largeStore } from "./store/large-store.ts";
import { phonePages } from "./store/pages.ts";
import { postgres } from "./store/postgres.ts";
import { parallel } from "./subject.ts";

/** Components that several measures share. They are started at the first use. */
interface Environment {
  readonly quick: boolean;
  readonly built: Built;
  readonly mail: () => Promise<MailServers>;
  readonly phone: () => Promise<PhoneFixture>;
}

interface Measure {
  /** Title of its section, and its line in the help. */
  readonly about: string;
  /** Runs only when `--only` names it. */
  readonly onRequest?: true;
  run(environment: Environment): Promise<Tally | void>;
}

const measures: Readonly<Record<string, Measure>> = {
  burst: {
    about: `email burst: rate and peak memory. Baseline: a script with ${parallel.conversations} conversations at a time and ${parallel.connections} SMTP connections`,
    run: async ({ mail, built, quick }) => burst(await mail(), built.main, quick ? 1 : 3, quick ? 500 : 2000),
  },
  single: {
    about: "single emails: added time. Baseline: the same script",
    run: async ({ mail, built, quick }) => single(await mail(), built.main, quick ? 20 : 40),
  },
  cpu: {
    about: "CPU time per email at a steady rate. Baseline: the same script",
    run: async ({ mail, built, quick }) => steady(await mail(), built.main, quick ? 1 : 4),
  },
  sms: {
    about: "SMS: burst, single, fixed rate. Baseline: a relay on node:http that stores nothing",
    run: async ({ phone, quick }) => sms(await phone(), quick ? 1 : 3, quick ? 500 : 2000),
  },
  voice: {
    about: "voice: prompt to first words. Baseline: a relay on ws that stores nothing",
    run: async ({ phone, quick }) => voice(await phone(), quick),
  },
  costs: {
    about: "CPU time per component, and the parts of the latency. Baselines: the same scripts",
    run: async ({ mail, phone, built, quick }) =>
      costs(
        { mail: await mail(), phone: await phone(), main: built.main },
        quick
          ? { burst: 500, seconds: 3, singles: 10, calls: 50, turns: 3 }
          : { burst: 2000, seconds: 10, singles: 30, calls: 200, turns: 5 },
      ),
  },
  memory: {
    about:
      "resident memory: without work, and when large mail has waited for the start. Baselines: the same script; one mailbox",
    run: async ({ mail, built, quick }) => {
      await memory(await mail(), built.main, quick ? 3000 : 10_000);
      return largeMails(await mail(), built.main, quick ? 3000 : 10_000);
    },
  },
  start: {
    about: "start of the installed daemon with an email waiting. Baseline: a script that loads the same packages",
    run: async ({ mail, built, quick }) => startToReply(await mail(), built.launcher, quick ? 5 : 15),
  },
  kills: {
    about: "SIGKILL during a burst against an SMTP server that records its commands",
    run: async ({ mail, built, quick }) => kills(await mail(), built.main, quick ? 5 : 20),
  },
  statements: {
    about: "SQL statements and commits per email; pages that a message writes to the log of SQLite",
    run: async ({ mail, phone, built, quick }) =>
      sum([
        await statements(await mail(), built.main, quick ? 10 : 20, quick ? 500 : 2000),
        await phonePages(await phone(), quick ? 10 : 20),
      ]),
  },
  path: {
    about: "source files that an email, an escalated email, an SMS and a turn of a call pass",
    run: async ({ mail, phone, built, quick }) =>
      paths({ mail: await mail(), phone: await phone(), built }, quick ? 5 : 20),
  },
  platform: {
    about: "embedded platform: requests. Baseline: node:http with the same bytes, or with one committed row per POST",
    run: ({ quick }) => servedRates(quick ? 1 : 3, quick ? 500 : 2000),
  },
  lists: {
    about: "embedded platform: lists and statistics of a large store. Baseline: a thousand messages",
    run: ({ quick }) => longLists(quick ? 100_000 : 1_000_000, quick ? 1 : 3, 100),
  },
  escalations: {
    about: "many open escalations. Baseline: a hundred",
    run: ({ quick }) => escalations(quick ? 2000 : 10_000, quick ? 1 : 3),
  },
  large: {
    about:
      "SQLite store with many messages: time per message and stage, also of customers who return. Baseline: an empty store",
    run: ({ quick }) => largeStore(quick ? 100_000 : 1_000_000, quick ? 40 : 100),
  },
  postgres: {
    about: "1, 2 and 4 nodes on PostgreSQL (fsync), agent latency 0 and 300 ms. Baseline: SQLite; one node",
    run: async ({ mail, built, quick }) => postgres(await mail(), built.main, quick ? 1 : 2, quick ? 200 : 2000),
  },
  architectures: {
    about: "two ways to commit without blocking connections: asynchronous fdatasync, and a worker thread",
    onRequest: true,
    run: ({ quick }) => architectures(quick ? 1 : 5, quick ? 2000 : 5000),
  },
  soak: {
    about: "ten minutes at a steady rate (--quick: one): heap and event loop delay",
    run: async ({ mail, built, quick }) => soak(await mail(), built.main, quick ? 1 : 10),
  },
};

const defaultReport = "docs/benchmarks.md";
const help = `npm run bench -- [--quick] [--only NAME,...] [--report [FILE]]

  --quick     fewer rounds: a check that everything works, with larger noise
  --only      only these measures
  --report    write the figures as Markdown with a chart (default: ${defaultReport}); waits until the machine is quiet

${Object.entries(measures)
  .map(([name, { about, onRequest }]) => `  ${name.padEnd(12)}${about}${onRequest ? " (only with --only)" : ""}`)
  .join("\n")}
`;

async function bench(names: readonly string[], quick: boolean): Promise<Tally> {
  let mail: Promise<MailServers> | undefined;
  let phone: Promise<PhoneFixture> | undefined;
  const built = await build();
  const environment: Environment = {
    quick,
    built,
    mail: () => (mail ??= startMailServers()),
    phone: () => (phone ??= startPhoneFixture(built.main)),
  };
  const tallies: Tally[] = [];
  try {
    for (const name of names) {
      const measure = measures[name];
      if (!measure) continue;
      const section = printSection(`${name}: ${measure.about}`);
      const began = clock();
      tallies.push((await measure.run(environment)) ?? noTally);
      section.seconds = (clock() - began) / 1000;
    }
  } finally {
    await (await mail)?.close();
    (await phone)?.close();
    built.dispose();
  }
  return sum(tallies);
}

/** Returns false after an error when figures that are published would come from a busy machine. */
async function isReady(publishes: boolean): Promise<boolean> {
  const machine = {
    processors: availableParallelism(),
    load: () => loadavg()[0] ?? 0,
    sleep,
    print: (text: string) => void process.stdout.write(`${text}\n`),
  };
  if (!publishes) warnWhenBusy(machine);
  else {
    try {
      await waitUntilQuiet(machine);
    } catch (error) {
      complain((error as Error).message);
      return false;
    }
  }
  return true;
}

function complain(text: string): void {
  process.stderr.write(`${text}\n`);
  process.exitCode = 2;
}

// Listeners of `exit` end the child processes; a signal alone would skip them.
for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => process.exit(130));

// The file of --report is optional, which parseArgs cannot express.
const argv = process.argv.slice(2);
const at = argv.indexOf("--report");
const given = at >= 0 ? argv[at + 1] : undefined;
const file = given === undefined || given.startsWith("-") ? defaultReport : given;
if (at >= 0) argv.splice(at, file === given ? 2 : 1);
const { values } = parseArgs({
  args: argv,
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});
const wanted = values.only?.split(",") ?? Object.keys(measures).filter((name) => measures[name]?.onRequest !== true);
const unknown = wanted.filter((name) => !(name in measures));

if (values.help) process.stdout.write(help);
else if (unknown.length > 0) complain(`--only: there is no measure ${unknown.join(", ")}\n\n${help}`);
else if (!existsSync("/proc/self/stat")) complain("the benchmark reads /proc, so it needs Linux");
else if (await isReady(at >= 0)) {
  const machine = {
    node: process.version,
    processors: availableParallelism(),
    load: loadavg()[0] ?? 0,
    syncMs: syncTime(),
  };
  process.stdout.write(
    `Node ${machine.node}; ${machine.processors} processors, load ${machine.load.toFixed(1)}; fdatasync ${machine.syncMs.toFixed(2)} ms\n` +
      "Store: SQLite, durable. Platform, SMTP server and provider: stubs in another process.\n",
  );
  const { lost, duplicated } = await bench(wanted, values.quick);
  const figures = sections.flatMap((section) => section.figures);
  const { processors, syncMs } = machine;
  const limits = limitsOf({ ...measuredCosts, figures, processors, syncMs, ...parallel });
  if (limits !== null) {
    printSection("limits: what keeps each missed goal from being met", false);
    printTable(limits);
  }
  printSummary();
  const command = `npm run bench${process.argv.length > 2 ? ` -- ${process.argv.slice(2).join(" ")}` : ""}`;
  if (at >= 0) publish(file, machine, command);
  process.exitCode = lost + duplicated > 0 ? 1 : 0;
}
