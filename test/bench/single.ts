// One mail at a time, from its delivery into the mailbox to the answer at the SMTP server. Both contestants run all the
// time and take turns mail by mail, so that a busy moment of the machine meets both. Most of the time is the server's:
// Dovecot announces new mail half a second after it came. It is the same for both, so the difference counts.

import { startBare, startDaemon } from "./contestant.ts";
import { mail, mailId } from "./mails.ts";
import { median, printFigure, printTally, sum } from "./report.ts";
import { clock, type Ledger, type Rig, type Tally } from "./rig.ts";

/** The first ones of each are not counted: code is read from disk and compiled. */
const warming = 3;
const goalMs = 10;

export async function single(rig: Rig, count: number): Promise<Tally> {
  const [one, other] = [rig.surroundings(), rig.surroundings()];
  if (one === null || other === null) throw new Error("there are no unused mailboxes left");
  const bare = await startBare(one, 1);
  const daemon = await startDaemon(other);
  const contestants = { bare: one, ours: other };
  const times: { [name in keyof typeof contestants]: number[] } = { bare: [], ours: [] };
  const ledgers: { [name in keyof typeof contestants]: Ledger[] } = { bare: [], ours: [] };
  try {
    for (let n = 0; n < warming + count; n += 1) {
      for (const name of n % 2 === 0 ? (["bare", "ours"] as const) : (["ours", "bare"] as const)) {
        const id = mailId(`single-${name}`, n);
        const watched = rig.watch([id]);
        const began = clock();
        await rig.deliver(contestants[name].users[0] ?? "", mail(`single-${name}`, n));
        const ledger = await watched;
        ledgers[name].push(ledger);
        const at = ledger.answered.get(id);
        if (n >= warming && at !== undefined) times[name].push(at - began);
      }
    }
  } finally {
    await Promise.all([bare.stop(), daemon.stop()]);
  }
  const [theirs, ours] = [median(times.bare), median(times.ours)];
  printFigure({
    name: `one mail at a time, median of ${count}`,
    bare: theirs,
    ours,
    unit: "ms",
    compare: "difference",
    goal: { text: `+${goalMs} ms`, met: ours - theirs <= goalMs },
  });
  const tally = sum(ledgers.ours);
  printTally("one at a time", sum(ledgers.bare), tally);
  return tally;
}
