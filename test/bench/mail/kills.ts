// SIGKILL during a burst. A reply whose attempt was recorded is unknown after the kill; it may be recorded only when the
// SMTP server received a command for it. The platform is the real one, so that unknown questions can be looked up.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { sleep, type Tally } from "../clock.ts";
import { type Goal, goalOf } from "../goals.ts";
import { startServed, temporaryDirectory } from "../platform/subjects.ts";
import { printFigure, printTally } from "../report.ts";
import { startDaemon } from "../subject.ts";
import { authorOf, mail, mailId } from "./mails.ts";
import type { MailServers } from "./servers.ts";

/** Emails that are delivered before each start. */
const perKill = 50;
/** Delay of each reply of the SMTP server, so that every kill meets transactions. */
const smtpDelayMs = 10;

export async function kills(servers: MailServers, main: string, count: number): Promise<Tally> {
  const files = temporaryDirectory();
  const platform = await startServed(files.file("platform.db"));
  const around = { ...servers.surroundings(), httpPort: platform.port };
  const user = around.users[0] ?? "";
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-kills-"));
  const ids = Array.from({ length: count * perKill }, (_, n) => mailId("kills", n));
  let [unknown, premature] = [0, 0];
  servers.delaySmtp(smtpDelayMs);
  try {
    await (await startDaemon(around, { main, directory })).stop();
    const watched = servers.watch(ids);
    for (let round = 0; round < count; round += 1) {
      for (let n = round * perKill; n < (round + 1) * perKill; n += 1) await servers.deliver(user, mail("kills", n));
      servers.forgetTransactions();
      const daemon = await startDaemon(around, { main, directory });
      while ((await servers.transactions()).recipients.length === 0) await sleep(5);
      await sleep(50 + Math.random() * 450);
      await daemon.kill();
      // The server notices closed connections.
      await sleep(50);
      const started = await servers.transactions();
      const interrupted = recipientsOf(directory, "sending");
      const without = interrupted.filter((recipient) => !started.recipients.includes(recipient)).length;
      unknown += interrupted.length;
      premature += Math.max(0, without - started.unnamed);
    }
    const daemon = await startDaemon(around, { main, directory });
    const { answered, duplicated } = await watched;
    await daemon.stop();
    // Without a Sent folder an unknown reply is held for the operator, who can see it. A question of unknown outcome
    // is asked again after absent_after, which is longer than the watch waits for the next reply.
    const held = new Set(["unknown", "held"].flatMap((state) => recipientsOf(directory, state)));
    const open = new Set(rowsOf(directory, "SELECT person FROM turns WHERE state IN ('unknown', 'waiting')"));
    const missing = ids.flatMap((id, n) => (answered.has(id) || held.has(authorOf(n)) ? [] : [authorOf(n)]));
    const lost = missing.filter((author) => !open.has(author)).length;
    print("questions still to be looked up", missing.length - lost, null);
    print(`unknown replies after ${count} SIGKILLs`, unknown, null);
    print("unknown replies without an SMTP command", premature, goalOf("unknownReplies", premature));
    const tally = { lost, duplicated };
    printTally("SIGKILL", { lost: 0, duplicated: 0 }, tally);
    return tally;
  } finally {
    servers.delaySmtp(0);
    await platform.stop();
    rmSync(directory, { recursive: true, force: true });
    files.remove();
  }
}

const recipientsOf = (directory: string, state: string): string[] =>
  rowsOf(directory, "SELECT recipient FROM drafts WHERE state = ?", state);

/** Returns the first column. */
function rowsOf(directory: string, sql: string, ...values: string[]): string[] {
  const db = new Sqlite(join(directory, "bench.db"), { readonly: true });
  try {
    return db
      .prepare(sql)
      .pluck()
      .all(...values) as string[];
  } finally {
    db.close();
  }
}

function print(name: string, measured: number, goal: Goal | null): void {
  printFigure({ name, baseline: null, measured, unit: "", compare: "none", goal });
}
