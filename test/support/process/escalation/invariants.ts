// The oracle for escalations. It holds what the customer and the people on duty got, and what the platform has, against
// the store, read after the daemon has ended.

import { damageOf, readStored } from "../mail/invariants.ts";
import type { Act, Cast } from "./scenario.ts";
import { dora, type EscalationSetup, emil, handing } from "./servers.ts";

export type EscalationInvariant =
  | "unnotified" // somebody on duty was never told
  | "flooded" // somebody was told the same thing more than once
  | "unanswered" // the customer got no answer to something
  | "answered-twice"
  | "relayed" // the human's words are not on the platform exactly once
  | "asked" // the customer's words are not on the platform exactly once
  | "escalations" // not exactly one
  | "unacknowledged" // the human answered, and nobody has it
  | "forwarded" // what the customer wrote on did not reach the human exactly once
  | "mode"
  | "damaged"
  | "unsettled";

export interface EscalationViolation {
  readonly invariant: EscalationInvariant;
  readonly detail: string;
}

type Say = (invariant: EscalationInvariant, detail: string) => void;

/** Work that runs or is due soon. Later work waits for longer than a test lasts. */
const busySql = (
  soon: number,
) => `SELECT 'event' AS what, CAST(id AS TEXT) AS id, state FROM events WHERE state = 'stored'
  UNION ALL SELECT 'turn', id, state FROM turns WHERE open = 1
  UNION ALL SELECT 'reply', id, state FROM replies WHERE state = 'ready'
  UNION ALL SELECT 'draft', id, state FROM drafts WHERE open = 1
  UNION ALL SELECT 'lane', id, holder FROM lanes WHERE holder IS NOT NULL
  UNION ALL SELECT 'escalation', id, state FROM escalations WHERE due_at <= ${soon}
  UNION ALL SELECT 'notice', id, kind FROM notifications WHERE due_at <= ${soon}
  UNION ALL SELECT 'intake', id, state FROM platform_webhooks WHERE state = 'stored'
  UNION ALL SELECT 'watch', conversation, mode FROM polls WHERE due_at <= ${soon}`;

interface Busy {
  readonly what: string;
  readonly id: string;
  readonly state: string | null;
}

const soonMs = 10_000;
const busyIn = ({ store }: EscalationSetup) => readStored<Busy>(store, busySql(Date.now() + soonMs));

export const isQuiet = async (setup: EscalationSetup): Promise<boolean> => (await busyIn(setup)).length === 0;

/** The newest escalation's state, and what is under way, for people. */
export async function stateOf(setup: EscalationSetup): Promise<string> {
  const newest = "SELECT state FROM escalations ORDER BY number DESC LIMIT 1";
  const [row] = await readStored<{ state: string }>(setup.store, newest);
  const busy = await busyIn(setup);
  return [row?.state ?? "none", ...busy.map((one) => `${one.what} ${one.id} ${one.state}`)].join(", ");
}

/** Whether that is one of the ways in which an escalation was noticed. */
export const isNoticedBy = async ({ store }: EscalationSetup, source: string): Promise<boolean> =>
  (await readStored(store, `SELECT key FROM triggers WHERE source = '${source}'`)).length > 0;

/** The platform's id of the customer's conversation. */
export async function platformIdOf({ store }: EscalationSetup, { customer }: Cast): Promise<string> {
  const sql = `SELECT platform_id FROM conversations WHERE person = '${customer}'`;
  const [row] = await readStored<{ platform_id: string }>(store, sql);
  if (row === undefined) throw new Error(`there is no conversation of ${customer}`);
  return row.platform_id;
}

/** Everything that is wrong when these acts were played; empty when all is well. */
export async function escalationViolations(
  setup: EscalationSetup,
  cast: Cast,
  plot: readonly Act[],
): Promise<EscalationViolation[]> {
  const found: EscalationViolation[] = [];
  const say: Say = (invariant, detail) => void found.push({ invariant, detail });
  await checkStore(setup, say);
  await checkEscalation(setup, cast, say);
  checkCustomer(setup, cast, plot, say);
  await checkPeople(setup, cast, plot, say);
  await checkPlatform(setup, cast, plot, say);
  return found;
}

async function checkStore({ store }: EscalationSetup, say: Say): Promise<void> {
  for (const damage of await damageOf(store)) say("damaged", damage);
  const open = await readStored<Busy>(
    store,
    `SELECT 'event' AS what, CAST(id AS TEXT) AS id, state FROM events WHERE state IN ('stored', 'failed', 'held')
       UNION ALL SELECT 'turn', id, state FROM turns WHERE state NOT IN ('answered', 'silent')
       UNION ALL SELECT 'draft', id, state || ': ' || COALESCE(reason, '') FROM drafts WHERE state NOT IN ('sent', 'delivered')
       UNION ALL SELECT 'notice', id, kind FROM notifications WHERE due_at IS NOT NULL
       UNION ALL SELECT 'lane', id, 'leased' FROM lanes WHERE lease_until > 0`,
  );
  for (const { what, id, state } of open) say("unsettled", `${what} ${id} is ${state}`);
}

async function checkEscalation({ store }: EscalationSetup, { human }: Cast, say: Say): Promise<void> {
  const rows = await readStored<{
    number: number;
    state: string;
    acknowledged_by: string | null;
    due_at: number | null;
  }>(store, "SELECT number, state, acknowledged_by, due_at FROM escalations");
  if (rows.length !== 1) say("escalations", `there are ${rows.length}`);
  for (const { number, state, acknowledged_by, due_at } of rows) {
    if (state !== "closed" || due_at !== null) say("escalations", `${number} is ${state}, due ${due_at}`);
    if (acknowledged_by !== human.name) say("unacknowledged", `${number} is ${acknowledged_by}'s, not ${human.name}'s`);
  }
}

/** Each answer once, in order, and nothing else. */
function checkCustomer(setup: EscalationSetup, cast: Cast, plot: readonly Act[], say: Say): void {
  const texts = setup.texts(cast.customer);
  const wanted = [handing, cast.answers, ...(plot.includes("asks again") ? ["This is the answer to"] : [])];
  for (const start of wanted) {
    const times = texts.filter((text) => text.startsWith(start)).length;
    if (times === 0) say("unanswered", `never: ${start}`);
    if (times > 1) say("answered-twice", `${times} times: ${start}`);
  }
  const order = texts.map((text) => wanted.findIndex((start) => text.startsWith(start)));
  if (order.includes(-1)) say("answered-twice", `something else: ${texts.join(" | ")}`);
  if (order.some((at, index) => index > 0 && at < (order[index - 1] ?? 0)))
    say("answered-twice", `out of order: ${texts.join(" | ")}`);
}

const isTold = (text: string): boolean => /^\[?Escalation \d+[\]:] ?(refund|the )/.test(text);

async function checkPeople(setup: EscalationSetup, cast: Cast, plot: readonly Act[], say: Say): Promise<void> {
  const texts = setup.texts(dora.sms);
  const mails = await setup.mails(emil.email);
  const got = {
    [dora.name]: texts.filter(isTold).length,
    // The first of the thread: what comes later cites it.
    [emil.name]: mails.filter(({ subject }) => subject.startsWith("[Escalation")).length,
    pager: setup.pager.pages().filter(({ type }) => type === "escalation.opened").length,
  };
  for (const [name, times] of Object.entries(got)) {
    if (times === 0) say("unnotified", name);
    if (times > 1) say("flooded", `${name} was told ${times} times`);
  }
  const heard = cast.human.by === "text" ? texts : mails.map(({ text }) => text);
  const forwarded = heard.filter((text) => text.includes(cast.writesOn)).length;
  if (forwarded !== (plot.includes("writes on") ? 1 : 0)) say("forwarded", `${forwarded} times`);
  const other = cast.human.by === "text" ? mails.map(({ text }) => text) : texts;
  const taken = other.filter((text) => text.includes(cast.human.name)).length;
  if (taken !== 1) say("forwarded", `the other one was told ${taken} times who has it`);
}

async function checkPlatform(setup: EscalationSetup, cast: Cast, plot: readonly Act[], say: Say): Promise<void> {
  const id = await platformIdOf(setup, cast);
  const { messages } = (await setup.platform("GET", `conversations/${id}/messages`)) as {
    messages: { senderRole: string; message: string }[];
  };
  const times = (role: string, words: string) =>
    messages.filter(({ senderRole, message }) => senderRole === role && message.includes(words)).length;
  const relayed = times("manual_assistant", cast.answers);
  if (relayed !== 1) say("relayed", `${relayed} times: ${messages.map((one) => one.senderRole).join()}`);
  const written = { "hands over": cast.asks, "writes on": cast.writesOn, "asks again": cast.asksAgain };
  for (const [act, words] of Object.entries(written)) {
    const asked = times("conversation_user", words);
    if (asked !== (plot.includes(act as Act) ? 1 : 0)) say("asked", `${asked} times: ${words}`);
  }
  const { mode } = (await setup.platform("GET", `conversations/${id}`)) as { mode: string };
  if (mode !== "ai") say("mode", `the conversation is ${mode}`);
}
