// Responder replies. Runs in stage route, before the guards for customers' messages.
// Input: a stored message, with the notification targets of its sender or of the notifications that it cites.
// Effect: reads acknowledgements and commands. A reply never reaches the agent, and it reaches the customer only when the
// sender is a notification target of the escalation.
// Output: acknowledged, closed or resumed escalations; a relayed text; an answer to the responder; the event settled.
// Failure: fails with the transaction of stage route, which retries. Crash: the event is still stored.

import type { MessageEvent } from "bridgehead/contract";
import { newId } from "../../ops/clock.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import { logOnDisk, type Query } from "../../store/driver.ts";
import { addTriggers } from "../../store/tables/escalations.ts";
import { type EventRow, recordOutcome } from "../../store/tables/events.ts";
import { addNotifications, type TargetRow } from "../../store/tables/responders.ts";
import { acknowledge, close, type EscalationCore, enqueueRelay, resume } from "../actions.ts";
import { type Action, planReply, type ReplyPlan, whyIgnored } from "./decide.ts";
import { enqueueAnswer, loadReply } from "./rows.ts";

type ReplyDeps = Omit<EscalationCore, "policy">;

/** Limit of our answers to one address. Stops a mail loop between two autoresponders. */
const mostAnswers = 20;

/** Returns true when the message was a responder's reply, or a stranger's about an escalation. Its event
 *  is settled then. */
export async function routeResponderReply(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: MessageEvent,
  deps: ReplyDeps,
): Promise<boolean> {
  if ("session" in event.thread) return false;
  const loaded = await loadReply(q, line, row, event, deps);
  if (loaded === null) return false;
  const { sender, first, input } = loaded;
  const ignored = whyIgnored(event, sender, first);
  if (ignored === null) {
    await write(q, line, row, planReply(input), first.target, deps);
    return true;
  }
  const { code, reason, answer, stranger } = ignored;
  if (answer !== undefined) await answerTo(q, row, first.target, answer, deps);
  // Sent once per address, because the address may belong to an autoresponder. The stranger gets no message.
  if (stranger !== undefined) await enqueueCustomerText(q, first.target, `from:${event.from.address}`, stranger, deps);
  logOnDisk(q, deps.log).warn({ channel: line.channel, event: row.id, code }, "escalation reply ignored");
  await recordOutcome(q, row.id, { state: "ignored", code, reason });
  return true;
}

async function write(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  { automatic, actions, answers }: ReplyPlan,
  first: TargetRow,
  deps: ReplyDeps,
): Promise<void> {
  const conversation = first.conversation === null ? {} : { conversation: first.conversation };
  if (automatic !== null) {
    const { state, code, reason, level } = automatic;
    logOnDisk(q, deps.log).warn(
      { channel: line.channel, event: row.id, level },
      "escalation reply looks automatic, not relayed",
    );
    // At most one message per window, because the address may belong to an autoresponder.
    const window = Math.floor(deps.clock.now() / deps.timing.escalation.heldReply);
    if (automatic.text !== null) await enqueueCustomerText(q, first, `held:${window}`, automatic.text, deps);
    return recordOutcome(q, row.id, { state, code, reason, ...conversation });
  }
  await addTriggers(
    q,
    actions.flatMap(({ row: { id: escalation }, by, note }) =>
      note === null
        ? []
        : [{ key: `note:${row.id}:${escalation}`, escalation, source: "note", detail: `${by}: ${note}` }],
    ),
  );
  for (const action of actions) await apply(q, action, deps);
  for (const answer of answers) await answerTo(q, row, answer.target, answer.text, deps);
  await recordOutcome(q, row.id, { state: "routed", code: "human", ...conversation });
}

async function apply(
  q: Query,
  { row, target, by, relay, end, customer, ...action }: Action,
  deps: ReplyDeps,
): Promise<void> {
  if (action.acknowledge) await acknowledge(q, row, { name: by, target: target.id }, deps);
  if (relay !== null) await enqueueRelay(q, relay.customer, relay, deps);
  if (end === "resume") await resume(q, row, customer, by, deps);
  if (end === "close") await close(q, row, by, deps);
}

/** Enqueues our answer to the reply, unless that would exceed the loop limit. */
async function answerTo(
  q: Query,
  { id: event, channel }: EventRow,
  target: TargetRow,
  text: string,
  { clock, log, timing }: ReplyDeps,
): Promise<void> {
  const answer = { id: newId(clock.now()), subject: `event:${event}`, text };
  const loopLimit = { most: mostAnswers, withinMs: timing.escalation.answerLoop };
  if (!(await enqueueAnswer(q, target, answer, loopLimit)))
    logOnDisk(q, log).warn({ channel, event }, "escalation reply not answered: duplicate or loop limit");
}

async function enqueueCustomerText(
  q: Query,
  { id: target }: TargetRow,
  subject: string,
  text: string,
  { clock }: ReplyDeps,
): Promise<void> {
  await addNotifications(q, [{ id: newId(clock.now()), target, kind: "message", subject, text, inMs: 0 }]);
}
