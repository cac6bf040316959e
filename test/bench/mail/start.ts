// From the spawn of the installed daemon, with an email waiting in its mailbox, to the reply at the SMTP server. The
// baseline is started in turns with it, and loads the packages that the daemon was seen to load.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clock, sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { median, printFigure, printTally } from "../report.ts";
import { type Preload, type Subject, startBareStart, startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers } from "./servers.ts";

interface Started extends Tally {
  /** Milliseconds from the spawn to the reply. */
  readonly ms: number;
  /** CPU time until shortly after the reply, in milliseconds. */
  readonly cpu: number;
}

/** Delivers an email, starts the subject and ends it after its reply. Calls `inspect` before the end. */
async function once(
  servers: MailServers,
  user: string,
  run: string,
  start: () => Promise<Subject>,
  inspect?: (subject: Subject) => Promise<void>,
): Promise<Started> {
  const id = mailId(run, 0);
  await servers.deliver(user, mail(run, 0));
  const watched = servers.watch([id]);
  const began = clock();
  const subject = await start();
  const { answered, lost, duplicated } = await watched;
  const ms = (answered.get(id) ?? Number.NaN) - began;
  const started = { ms, cpu: subject.cpu(), lost, duplicated };
  await inspect?.(subject);
  await subject.stop();
  return started;
}

/** The medians of `count` starts: of the daemon on the same store, and of the baseline. The first starts, which create the
 *  store, the compile caches and the list of packages, are not counted. */
export async function startToReply(servers: MailServers, launcher: string, count: number): Promise<Tally> {
  const around = { baseline: servers.surroundings(), daemon: servers.surroundings() };
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-start-"));
  const runs: { readonly [side in keyof typeof around]: Started[] } = { baseline: [], daemon: [] };
  let packages: readonly string[] = [];
  const starts = {
    baseline: () => startBareStart(around.baseline, packages, join(directory, "compile-cache")),
    daemon: (preload?: Preload) =>
      startDaemon(around.daemon, { main: launcher, directory, ready: null, ...(preload && { preload }) }),
  };
  try {
    // A new store answers only emails that arrive after its first start.
    await (await startDaemon(around.daemon, { main: launcher, directory })).stop();
    const user = (side: keyof typeof around) => around[side].users[0] ?? "";
    const first = [
      await once(
        servers,
        user("daemon"),
        "start-packages",
        () => starts.daemon("packages"),
        async (daemon) => void (packages = await daemon.packages()),
      ),
      await once(servers, user("baseline"), "start-cache", starts.baseline),
    ];
    for (let n = 0; n < count; n += 1)
      for (const side of ["baseline", "daemon"] as const)
        runs[side].push(await once(servers, user(side), `start-${side}-${n}`, () => starts[side]()));
    print(runs, count);
    const tally = sum([...first, ...runs.daemon]);
    printTally("start to first reply", sum(runs.baseline), tally);
    return tally;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function print(runs: { readonly [side in "baseline" | "daemon"]: readonly Started[] }, count: number): void {
  const figure = (name: string, what: "ms" | "cpu", isGoal: boolean) => {
    const [baseline, measured] = [runs.baseline, runs.daemon].map((list) => median(list.map((one) => one[what])));
    if (baseline === undefined || measured === undefined) return;
    const goal = isGoal ? goalOf("start", measured) : null;
    printFigure({ name: `start to first reply, ${name}`, baseline, measured, unit: "ms", compare: "ratio", goal });
  };
  figure(`median of ${count}`, "ms", true);
  figure("CPU time", "cpu", false);
}
