// Handles consent keywords (STOP, START, HELP). Part of stage route: runs in the event's own transaction.
// The agent never receives these messages under any channel rule. Only the keyword decides.

import type { Clock, Consent, Log, MessageEvent } from "bridgehead/contract";
import { answerTo } from "../../domain/address.ts";
import type { Query } from "../../store/driver.ts";
import { countNotices } from "../../store/tables/drafts.ts";
import { type EventRow, hasSaidSince, settleEvent } from "../../store/tables/events.ts";
import { lift, suppress } from "../../store/tables/suppressions.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import { insertNotice } from "./notices.ts";

const codes = { stop: "opt-out", start: "opt-in", help: "help" } as const;
/** The code of a refused outcome or of a delivery receipt when the provider reports that the recipient
 *  has opted out. */
export const optedOut = "opted-out";

/** The code of a message or turn that is not asked because its recipient is suppressed. */
export const suppressedCode = "suppressed";

/** Suppresses the address immediately, without counting strikes, because the recipient asked for it. */
export async function suppressOptedOut(
  q: Query,
  channel: string,
  address: string,
  reason: string,
): Promise<void> {
  await suppress(q, channel, address, `the provider says that they opted out: ${reason}`);
}

/** Applies an opt-out or opt-in to the address immediately and queues the channel's own confirmation.
 *  Queued drafts to a suppressed address are dropped when they become due. `place` finds or opens the
 *  conversation. */
export async function heed(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: MessageEvent & { readonly consent: Consent },
  place: () => Promise<string>,
  deps: { readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const { word, answer } = event.consent;
  const { address } = event.from;
  const code = codes[word];
  if (await isOutdated(q, line, row, event)) {
    deps.log.info(
      { channel: line.channel, event: row.id, code },
      "a person's word that came late is outdated",
    );
    return settleEvent(q, row.id, { state: "ignored", code, reason: "the person has said otherwise since" });
  }
  if (word === "stop") await suppress(q, line.channel, address, `the person said STOP (event ${row.id})`);
  if (word === "start") await lift(q, line.channel, address);
  deps.log.info({ channel: line.channel, event: row.id, code }, "a person's word on being written to");
  const conversation = answer === undefined || !line.outbound ? null : await place();
  if (answer !== undefined && conversation !== null) {
    if (await saidEnough(q, line, conversation))
      deps.log.warn({ channel: line.channel, event: row.id, code }, "not answered: a loop is assumed");
    else {
      const to = { ...answerTo(event), to: [event.from], cc: [] };
      await insertNotice(q, deps.clock, {
        channel: line.channel,
        conversation,
        address: to,
        text: answer,
        forced: true,
      });
    }
  }
  await settleEvent(q, row.id, {
    state: "ignored",
    code,
    reason: `the person said ${word.toUpperCase()}`,
    conversation,
  });
}

/** Two machines that answer each other's keywords would loop without end. Confirmations therefore count
 *  against the sender's caps, as answers do. */
async function saidEnough(q: Query, line: ChannelRuntime, conversation: string): Promise<boolean> {
  for (const cap of line.rules.caps.sender) {
    if ((await countNotices(q, conversation, cap.per)) >= cap.max) return true;
  }
  return false;
}

/** A message older than this on arrival was found by a backfill. Newer messages may have been processed
 *  before it. Milliseconds. */
const lateMs = 10_000;
/** Two keywords closer together than this may have arrived in either order; then STOP takes precedence.
 *  Milliseconds. */
const closeMs = 60_000;

/** Keywords that arrive without delay count in the order of arrival, independent of all clocks. Returns
 *  true for a late START or STOP that a later keyword has replaced. */
async function isOutdated(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  { consent, sentAt, from }: MessageEvent & { readonly consent: Consent },
): Promise<boolean> {
  const said = sentAt.getTime();
  if (consent.word === "help" || row.received_at - said < lateMs) return false;
  const person = from.address.toLowerCase();
  return consent.word === "start"
    ? hasSaidSince(q, line.channel, person, codes.stop, said)
    : hasSaidSince(q, line.channel, person, codes.start, said + closeMs);
}
