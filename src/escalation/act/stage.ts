// The actions on one escalation that are requested outside of a reply. Input: an action requested on the page of a link, in
// the console, or by `bridgehead escalation`, and the locked escalation. Effect: acknowledges, replies, notes, resumes or
// closes; every action may be repeated. Output: its writes, and the outcome for the actor. Failure: fails with the
// transaction of the caller. Crash: likewise; the actor repeats the action.

import { newId } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { addTriggers, type EscalationRow, hasNote, liveEscalation } from "../../store/tables/escalations.ts";
import { earlierRelay, wasReturned } from "../../store/tables/takeover.ts";
import { acknowledge, close, enqueueRelay, type RelayDeps, resume } from "../actions.ts";
import { readCustomers } from "../reply/rows.ts";
import { type ActionFacts, type ActionOutcome, type ActionRequest, decideAction, noteOf } from "./decide.ts";

/** `sameText`: milliseconds within which an identical text counts as a repetition. */
type ActDeps = RelayDeps & { readonly sameText: number };

/** Executes the action. Call with the escalation locked. */
export async function act(q: Query, row: EscalationRow, request: ActionRequest, deps: ActDeps): Promise<ActionOutcome> {
  const facts = await loadFacts(q, row, request, deps);
  const { outcome, ...plan } = decideAction(row, request, facts);
  const { by, text } = request;
  if (plan.note !== null) {
    const key = `note:${newId(deps.clock.now())}`;
    await addTriggers(q, [{ key, escalation: row.id, source: "note", detail: plan.note }]);
  }
  if (plan.relay && facts.customer !== null)
    await enqueueRelay(q, facts.customer, { text, inCall: facts.kind === "voice" }, deps);
  if (plan.acknowledge) await acknowledge(q, row, by, deps);
  if (plan.end === "close") await close(q, row, by.name, deps);
  if (plan.end === "resume") await resume(q, row, facts.customer, by.name, deps);
  return outcome;
}

async function loadFacts(
  q: Query,
  row: EscalationRow,
  { action, text, by, again }: ActionRequest,
  { kindOf, sameText }: ActDeps,
): Promise<ActionFacts> {
  const { conversation } = row;
  const inConversation = conversation !== null;
  const customers =
    inConversation && (action === "reply" || action === "resume") ? await readCustomers(q, [conversation]) : null;
  const customer = customers?.get(conversation ?? "") ?? null;
  const ended = row.state === "closed" && action === "resume";
  const noteRow = { escalation: row.id, source: "note", detail: noteOf(by, text) };
  return {
    customer,
    kind: customer && kindOf(customer.channel),
    isNoted: action === "note" && !again && (await hasNote(q, noteRow, sameText)),
    said: action === "reply" && inConversation && !again ? await earlierRelay(q, conversation, text, sameText) : null,
    isReturned: ended && inConversation && (await wasReturned(q, conversation, row.from_seq)),
    hasSuccessor: ended && (await liveEscalation(q, row.about)) !== null,
  };
}
