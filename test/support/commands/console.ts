// A console over a store of its own, on a real port; what the daemon would tell about its channels is given.

import { onTestFinished } from "vitest";
import type { ChannelReport } from "../../../src/channels/readiness.ts";
import type { ConsoleContext, StoreState } from "../../../src/console/page.ts";
import { createLoginLink } from "../../../src/console/session.ts";
import { startConsole, type WebConsole } from "../../../src/console/start.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type Timing, type TimingOverrides, timingWith } from "../../../src/ops/timing.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { insertReply } from "../../../src/store/tables/drafts.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { silentLog } from "../resources.ts";
import { conversation, event, insertEvent, put } from "../store/databases.ts";

export interface ConsoleFixture {
  readonly db: Database;
  readonly web: WebConsole;
  readonly url: string;
  readonly timing: Timing;
  readonly channels: ChannelReport[];
  readonly state: { current: StoreState };
  /** A new login link. */
  link(): Promise<string>;
  /** The cookie of a new session. */
  login(): Promise<string>;
  /** A page as a logged-in browser gets it. */
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
}

export const channel = (id: string, over: Partial<ChannelReport> = {}): ChannelReport => ({
  id,
  adapter: "email",
  state: "ready",
  reason: null,
  not_asking: null,
  key_rejected: false,
  since: new Date(Date.now() - 3_600_000).toISOString(),
  last_activity_at: null,
  failures: 0,
  retry_at: null,
  notices_only: false,
  mode: "live",
  paused: null,
  warnings: [],
  ...over,
});

export async function openConsole(
  db: Database,
  options: { readonly timing?: TimingOverrides; readonly publicUrl?: string } = {},
): Promise<ConsoleFixture> {
  const timing = timingWith(options.timing);
  const channels: ChannelReport[] = [channel("support-mail"), channel("support-sms", { adapter: "sms" })];
  const state = { current: { problem: null, warnings: [] } as StoreState };
  const context: ConsoleContext = {
    db,
    commit: (write) => db.tx(write),
    clock: systemClock,
    log: silentLog,
    timing,
    channels: () => channels,
    storeState: async () => state.current,
    kindOf: () => "email",
    policy: () => null,
  };
  const web = await startConsole({
    context,
    listen: { host: "127.0.0.1", port: 0 },
    publicUrl: options.publicUrl,
  });
  onTestFinished(() => web.close());
  const address = web.address;
  const link = async () => `${address}/login/${await db.tx((q) => createLoginLink(q, timing.console))}`;
  let cookie: string | null = null;
  const login = async () => {
    const response = await fetch(await link(), {
      method: "POST",
      headers: { origin: address },
      redirect: "manual",
    });
    return (response.headers.getSetCookie()[0] ?? "").split(";")[0] ?? "";
  };
  return {
    db,
    web,
    url: address,
    timing,
    channels,
    state,
    link,
    login,
    async get(path, headers = {}) {
      cookie ??= await login();
      return fetch(address + path, { headers: { cookie, ...headers }, redirect: "manual" });
    },
  };
}

/** A few of everything that the pages show. */
export async function populate(db: Database, { replies = 3 }: { readonly replies?: number } = {}): Promise<void> {
  await db.tx(async (q) => {
    for (const id of ["support-mail", "support-sms"]) await ensureChannel(q, id);
    await refused(q, "out-of-office", "anna@example.org", "auto-reply", "It is an automatic reply (Auto-Submitted)");
    await refused(q, "newsletter", "news@shop.example", "list", "It is mail of a mailing list (List-Id)");
    await refused(q, "denied", "bob@blocked.example", "denied", "The sender is on the deny list");
    const held = await message(q, "capped", "carl@example.org", "Where is my order?");
    await put(
      q,
      "events",
      String(held),
      "state = 'held', code = 'cap-sender', reason = 'The sender''s cap is reached'",
    );
    await message(q, "new", "dora@example.org", "A new question");
    for (let n = 0; n < replies; n++) await heldReply(q, n);
  });
}

async function message(q: Query, id: string, sender: string, subject: string): Promise<number> {
  const body = JSON.stringify({ kind: "message", text: `Hello,\nthis is ${subject} <b>from</b> ${sender}.` });
  await insertEvent(q, event(id, { channel: "support-mail", sender, subject, body, sentAt: Date.now() }));
  const row = await q.one<{ id: number }>("SELECT id FROM events WHERE external_id = $1", id);
  return row?.id ?? 0;
}

export async function refused(q: Query, id: string, sender: string, code: string, reason: string): Promise<number> {
  const number = await message(q, id, sender, `Subject ${id}`);
  await put(q, "events", String(number), `state = 'ignored', code = '${code}', reason = '${reason}'`);
  return number;
}

/** A reply that is held. */
export async function heldReply(
  q: Query,
  n: number,
  reason = "its outcome is unknown: the connection ended after the last byte",
  code = "unknown-outcome",
) {
  const of = await conversation(q, `held${n}`, "support-mail", `person${n}@example.org`);
  await put(q, "conversations", of, `subject = 'Question ${n}'`);
  await insertReply(q, {
    id: `reply${n}`,
    conversation: of,
    channel: "support-mail",
    turn: null,
    text: "text",
    platformId: null,
  });
  await q.run(
    `INSERT INTO drafts (id, conversation, channel, reply, recipient, seq, state, open, body, attempts, due_at, reason, code, created_at, updated_at)
     VALUES ($1, $2, 'support-mail', $3, $4, 1, 'held', 0, '{}', 1, now_ms(), $5, $6, now_ms(), now_ms())`,
    `draft${n}`,
    of,
    `reply${n}`,
    `person${n}@example.org`,
    reason,
    code,
  );
  await q.run(
    `INSERT INTO lanes (id, conversation, channel, direction, next_seq) VALUES ($1, $2, 'support-mail', 'out', 2)
     ON CONFLICT (id) DO NOTHING`,
    `${of}/out`,
    of,
  );
}
