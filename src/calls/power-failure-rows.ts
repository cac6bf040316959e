// Calls and power failures. A power failure takes the last commits that are not on disk, and it ends the calls of the
// machine. These commits of a call do not wait for the disk (SQLite only, `endsWithPower`):
//
// | row | what happens before it is on disk | after a power failure without it |
// | --- | --- | --- |
// | message of the caller, its turn, first attempt to ask it (`asking`) | the question is asked; the adapter's `accept` still waits | unknown, and not acknowledged; with a part of these rows it is dropped here, never asked twice |
// | answer, its reply and draft, attempt to speak it (`sending`) | the reply is spoken | the turn is `asking`: looked up, its reply is not spoken |
// | attempt to speak it later, outcome | the reply is spoken | the draft is `queued` or `sending`: not spoken again |
//
// Everything else waits: what a provider receives (events of the session, webhooks), openings, repeated questions, the
// replies of a conversation with an open escalation, and all effects of other channels. The log is one file, so a sync
// for any of these covers every earlier row of a call; the event that closes a call covers all of it. Without any, the
// rows of calls share a sync (`CommitPace`). A process that only dies loses no commit: the kernel has its writes, and the
// boot number is the same. The outcome of a spoken reply joins the next commit, within milliseconds: a process that dies
// before it finds the reply `sending`, as if it had died while it spoke.

import { bootNumber } from "../ops/boot.ts";
import type { Query } from "../store/driver.ts";
import { refreshLane } from "../store/lanes.ts";
import { allKnown } from "../store/tables/conversations.ts";
import { recordOutcomes } from "../store/tables/events.ts";
import { moves } from "../store/transitions.ts";

const restarted = "the machine was restarted during the call";

/** Call at every start on an SQLite store. In the first start of another boot, drops the questions of calls that may
 *  have been asked, those of messages that were not routed as well, and lets polls take the answers to them as known.
 *  Returns whether this is such a start. `boot` is for tests. */
export async function dropAfterPowerFailure(q: Query, boot = bootNumber): Promise<boolean> {
  const before = await q.one<{ value: number }>("SELECT value FROM meta WHERE name = 'boot'");
  if (boot === null || boot === before?.value) return false;
  await q.run(`INSERT INTO meta (name, value) VALUES ('boot', $1) ${replacing}`, boot);
  // An earlier version wrote the store; its commits have waited for the disk.
  if (before === undefined) return false;
  await q.run(`INSERT INTO meta (name, value) VALUES ('power_failed_at', now_ms()) ${replacing}`);
  // Of a commit with several messages the rest may be lost that routed and asked this one. A voicemail and an opt-out
  // are no questions.
  const unrouted = await q.all<{ id: number }>(
    `SELECT id FROM events WHERE state = 'stored' AND kind = 'message' AND body ->> '$.thread.session' IS NOT NULL
       AND body ->> '$.forHumans' IS NULL AND body ->> '$.consent' IS NULL`,
  );
  await recordOutcomes(
    q,
    unrouted.map(({ id }) => ({ id, state: "ignored", code: "power-failure", reason: restarted })),
  );
  const dropped = await q.all<{ conversation: string }>(
    `${moves("turns", "dropped", {
      set: `open = 0, reason = '${restarted}', updated_at = now_ms()`,
      where: `open = 1 AND session IS NOT NULL AND opening IS NULL AND attempts = 0
       AND EXISTS (SELECT 1 FROM conversations WHERE conversations.id = turns.conversation AND platform_id IS NOT NULL)`,
      from: ["waiting"],
    })} RETURNING conversation`,
  );
  for (const { conversation } of dropped) await refreshLane(q, conversation, "in");
  await q.run(
    `UPDATE polls SET mark = NULL, position = ${allKnown}
     WHERE conversation IN (SELECT conversation FROM sessions WHERE state <> 'closed')`,
  );
  return true;
}

const replacing = "ON CONFLICT (name) DO UPDATE SET value = excluded.value";
