// bridgehead outbox: lists the messages to be sent and changes their state for the operator. Runs in
// parallel to the daemon, which reads a change at its next sweep.

import type { Database } from "../../store/driver.ts";
import { dropDraft, listDrafts, resendDraft, showDraft } from "../../store/operators/outbox.ts";
import type { Io } from "../io.ts";
import { exitCodes } from "../io.ts";
import { table, when, withStore } from "../store/open.ts";

export interface OutboxOptions {
  readonly config: string;
  readonly action: "list" | "show" | "resend" | "drop";
  readonly id?: string;
  readonly state?: string;
  readonly channel?: string;
  readonly limit: number;
  readonly json?: boolean;
}

export function run(options: OutboxOptions, io: Io): Promise<number> {
  return withStore(options, io, async (db) => {
    if (options.action === "list") return list(db, options, io);
    const { id } = options;
    if (id === undefined) {
      io.err(`outbox ${options.action} needs a draft's id (see outbox list)`);
      return exitCodes.usage;
    }
    if (options.action === "show") return show(db, id, options, io);
    const action = options.action === "resend" ? resendDraft : dropDraft;
    await db.tx((q) => action(q, id));
    io.out(`${id}: ${options.action === "resend" ? "queued again" : "dropped"}`);
    return exitCodes.ok;
  });
}

async function list(db: Database, options: OutboxOptions, io: Io): Promise<number> {
  const { state, channel, limit } = options;
  const filter = {
    limit,
    ...(state === undefined ? {} : { state }),
    ...(channel === undefined ? {} : { channel }),
  };
  const drafts = await db.read((q) => listDrafts(q, filter));
  if (options.json) io.out(JSON.stringify(drafts));
  else if (drafts.length === 0) io.out("nothing");
  else {
    const rows = drafts.map((draft) => [
      draft.id,
      draft.state,
      draft.channel,
      shown(draft.recipient),
      String(draft.attempts),
      when(draft.due_at),
      draft.reason ?? "",
    ]);
    io.out(table([["DRAFT", "STATE", "CHANNEL", "TO", "TRIES", "DUE (UTC)", "REASON"], ...rows]));
  }
  return exitCodes.ok;
}

/** Masks the path of a webhook, because it often contains a secret key and terminals are shared. The
 *  JSON output contains the full URL. */
function shown(recipient: string): string {
  const url = URL.parse(recipient);
  return url?.protocol.startsWith("http") ? `${url.protocol}//${url.host}/...` : recipient;
}

async function show(db: Database, id: string, options: OutboxOptions, io: Io): Promise<number> {
  const found = await db.read((q) => showDraft(q, id));
  if (!found) {
    io.err(`there is no draft ${id} (see outbox list)`);
    return exitCodes.failed;
  }
  const { tries, body, ...draft } = found;
  const words = body === "" ? null : (JSON.parse(body) as unknown);
  if (options.json) {
    io.out(JSON.stringify({ ...draft, body: words, tries }));
    return exitCodes.ok;
  }
  io.out(
    table([
      ["draft", draft.id],
      ["state", draft.state],
      ["reason", draft.reason ?? "-"],
      ["channel", draft.channel],
      ["to", shown(draft.recipient)],
      ["conversation", draft.conversation],
      ["sent as", draft.external_id ?? "-"],
      ["made", when(draft.created_at)],
      ...tries.map((attempt) => [
        `attempt ${attempt.number}`,
        `${when(attempt.started_at)}  ${attempt.outcome ?? "open"}${attempt.detail ? `: ${attempt.detail}` : ""}`,
      ]),
    ]),
  );
  io.out(words === null ? "\nits words were forgotten (retention)" : `\n${JSON.stringify(words, null, 2)}`);
  return exitCodes.ok;
}
