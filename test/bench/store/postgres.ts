// Mails waiting in one mailbox, answered over PostgreSQL by 1, 2 and 4 nodes, and over SQLite in the same run. The nodes
// idle on an empty mailbox, are stopped by signal, the mails are delivered, and the clock starts when they may go on.
// All processes share one machine, so the CPU time of each is reported: the sum limits the rate. The clock includes the
// first compilation of the code in each node and the last, incomplete round of its 64 conversations, so the number of
// mails is that of the email burst: with 500 these took a third of the time of two nodes.

import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { Client } from "pg";
import { type Postgres, startPostgres, urlOfSchema } from "../../support/store/postgres.ts";
import { clock, noTally, sleep, sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { mail, mailId } from "../mail/mails.ts";
import type { MailServers } from "../mail/servers.ts";
import { median, printFigure, printTally } from "../report.ts";
import { type Subject, startDaemon } from "../subject.ts";

interface Run extends Tally {
  /** Mails a second, from the start to the last answer. */
  readonly rate: number;
  /** CPU time for each mail in milliseconds: of all nodes, of the PostgreSQL server, and of the mail server, the
   *  platform and this script. */
  readonly cpu: number;
  readonly serverCpu: number;
  readonly peersCpu: number;
  /** CPU time of all of them, as a percentage of all processors from the start to the last answer. */
  readonly load: number;
  /** Of the server, for each mail; 0 on SQLite. */
  readonly statements: number;
  readonly commits: number;
}

/** Runs each number of nodes at each latency of the agent (milliseconds). */
export async function postgres(
  servers: MailServers,
  main: string,
  rounds: number,
  count: number,
  nodeCounts: readonly number[] = [1, 2, 4],
  latencies: readonly number[] = [0, 300],
): Promise<Tally> {
  const server = await startPostgres({ durable: true });
  const tallies: Tally[] = [];
  try {
    for (const latency of latencies) {
      servers.delayAnswers(latency);
      const runs = new Map<number, Run[]>([0, ...nodeCounts].map((nodes) => [nodes, []]));
      for (let round = 0; round < rounds; round += 1) {
        for (const [nodes, list] of runs)
          list.push(await once(servers, main, server, nodes, `pg${round}n${nodes}l${latency}`, count));
      }
      tallies.push(report(latency, count, nodeCounts, runs));
    }
  } finally {
    servers.delayAnswers(0);
    await server.stop();
  }
  return sum(tallies);
}

function report(
  latency: number,
  count: number,
  nodeCounts: readonly number[],
  runs: ReadonlyMap<number, readonly Run[]>,
): Tally {
  const of = (nodes: number, what: keyof Run) => median((runs.get(nodes) ?? []).map((run) => run[what]));
  const name = (nodes: number) => `${nodes} node${nodes > 1 ? "s" : ""}, ${count} emails, agent ${latency} ms`;
  const sqlite = of(0, "rate");
  const one = of(1, "rate");
  for (const nodes of nodeCounts) {
    const ours = of(nodes, "rate");
    const goal =
      nodes === 1 && latency === 0
        ? goalOf("oneNode", ours / sqlite)
        : nodes === 2 && latency > 0
          ? goalOf("twoNodes", ours / one)
          : null;
    printFigure({
      name: name(nodes),
      baseline: nodes === 1 ? sqlite : one,
      measured: ours,
      unit: "emails/s",
      compare: "ratio",
      goal,
    });
    const cost = (what: string, measured: number, baseline: number | null, unit: string) =>
      printFigure({ name: `  ${what}`, baseline, measured, unit, compare: "none", goal: null });
    cost("CPU of the nodes per email", of(nodes, "cpu"), of(0, "cpu"), "ms");
    cost("CPU of PostgreSQL per email", of(nodes, "serverCpu"), null, "ms");
    cost("CPU of mail server and platform per email", of(nodes, "peersCpu"), of(0, "peersCpu"), "ms");
    cost("processors used", of(nodes, "load"), of(0, "load"), "%");
    cost("statements per email", of(nodes, "statements"), null, "");
    cost("commits per email", of(nodes, "commits"), null, "");
  }
  const tally = sum([...runs.values()].flat());
  printTally(`agent ${latency} ms`, noTally, tally);
  return tally;
}

/** `nodes` is 0 for SQLite. */
async function once(
  servers: MailServers,
  main: string,
  server: Postgres,
  nodes: number,
  run: string,
  count: number,
): Promise<Run> {
  const around = servers.surroundings();
  const schema = nodes === 0 ? null : await server.schema();
  const store = schema === null ? undefined : urlOfSchema(server, schema);
  const subjects: Subject[] = [];
  const ids = Array.from({ length: count }, (_, n) => mailId(run, n));
  try {
    for (let n = 0; n < Math.max(1, nodes); n += 1)
      subjects.push(await startDaemon(around, { main, ...(store === undefined ? {} : { store }) }));
    for (const one of subjects) one.signal("SIGSTOP");
    for (const n of ids.keys()) await servers.deliver(around.users[0] ?? "", mail(run, n));
    // The server looks into its directories half a second after the first sign of something new.
    await sleep(1500);
    const watched = servers.watch(ids);
    const before = await counters(server, subjects);
    const began = clock();
    for (const one of subjects) one.signal("SIGCONT");
    const { answered, lost, duplicated } = await watched;
    const after = await counters(server, subjects);
    const each = (what: keyof typeof after) => (after[what] - before[what]) / count;
    const duration = Math.max(...answered.values()) - began;
    return {
      rate: (answered.size * 1000) / duration,
      cpu: each("cpu"),
      serverCpu: each("serverCpu"),
      peersCpu: each("peersCpu"),
      load: ((each("cpu") + each("serverCpu") + each("peersCpu")) * count * 100) / (duration * availableParallelism()),
      statements: each("statements"),
      commits: each("commits"),
      lost,
      duplicated,
    };
  } finally {
    for (const one of subjects) await one.stop();
    if (schema !== null) await server.dropSchema(schema);
  }
}

async function counters(server: Postgres, subjects: readonly Subject[]) {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  const { rows } = await client.query<{ commits: string; statements: string }>(
    `SELECT (SELECT sum(calls) FROM pg_stat_statements) AS statements,
       (SELECT sum(xact_commit) FROM pg_stat_database) AS commits`,
  );
  await client.end();
  const cpu = subjects.reduce((all, one) => all + one.cpu(), 0);
  const serverCpu = cpuBelow(server.pid);
  return {
    cpu,
    serverCpu,
    peersCpu: cpuBelow(process.pid) - serverCpu - cpu,
    statements: Number(rows[0]?.statements),
    commits: Number(rows[0]?.commits),
  };
}

/** CPU time of a process, its descendants, and those that have ended, in milliseconds. */
function cpuBelow(root: number): number {
  const parents = new Map<number, number>();
  const times = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    const fields = statOf(name);
    if (fields === null) continue;
    parents.set(Number(name), Number(fields[1]));
    times.set(Number(name), [11, 12, 13, 14].reduce((all, at) => all + Number(fields[at]), 0) * 10);
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && (pid === root || isBelow(parents.get(pid)));
  return [...times].reduce((all, [pid, time]) => (isBelow(pid) ? all + time : all), 0);
}

/** The fields of /proc/PID/stat after the command's name; null when the process has ended. */
function statOf(pid: string): string[] | null {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? null;
  } catch {
    return null;
  }
}
