// A person's word on being written to (STOP, START, HELP). Part of stage route: pure, in the event's own transaction.
// The agent never sees it, whatever the channel's rules say, and nothing but the word itself decides.

import type { Clock, Consent, Log, MessageEvent } from "bridgehead/contract";
import { answerTo } from "../domain/address.ts";
import { countNotices } from "../store/drafts.ts";
import type { Query } from "../store/driver.ts";
import { type EventRow, hasSaidSince, settleEvent } from "../store/events.ts";
import { lift, suppress } from "../store/suppressions.ts";
import type { Line } from "./line.ts";
import { insertNotice } from "./notice.ts";

const codes = { stop: "opt-out", start: "opt-in", help: "help" } as const;
/** The code of a refused outcome, or of a receipt: the provider knows that the person does not want to be written to. */
export const optedOut = "opted-out";

/** The code of a message, or a turn, that is not asked because nothing may be sent to the person. */
export const suppressedCode = "suppressed";

/** At once, not by strikes: it is the person's own word. */
export async function suppressOptedOut(
  q: Query,
  channel: string,
  address: string,
  reason: string,
): Promise<void> {
  await suppress(q, channel, address, `the provider says that they opted out: ${reason}`);
}

/** Suppresses or frees the address at once, and says the channel's own words in return. Drafts that wait die when their
 *  time comes. `place` finds or opens the conversation. */
export async function heed(
  q: Query,
  line: Line,
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

/** Two machines that answer each other's keywords would never end: these words obey the sender's caps as answers do. */
async function saidEnough(q: Query, line: Line, conversation: string): Promise<boolean> {
  for (const cap of line.rules.caps.sender) {
    if ((await countNotices(q, conversation, cap.per)) >= cap.max) return true;
  }
  return false;
}

/** Older than that when it reached us, and it was missed and found later: others may have overtaken it. */
const lateMs = 10_000;
/** Two words that are closer than that may have come in either order, and then STOP is the one that counts. */
const closeMs = 60_000;

/** What is told at once counts in the order of its arrival, whatever the clocks say. */
async function isOutdated(
  q: Query,
  line: Line,
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
