// Live sessions (calls): part of the stages route and send. A session is one row that outlives its sockets. While it is
// open, the lanes of its conversation belong to the node that holds the socket. The caller's latest message has priority
// over older questions (`decide.ts`). A draft is spoken immediately or dropped.
// Input: events and messages of a session; the due draft of a call. Effect: none outside the store. Output: the session, the
// turn that asks the message, older turns `dropped`; whether the draft may be spoken. Failure: fails with the transaction of
// its stage, which retries. Crash: likewise; the session is `lost` when the process that held its socket has ended.

import type { MessageEvent, SendOutcome } from "bridgehead/contract";
import { answerTo, questionContext, questionText } from "../domain/turn.ts";
import { newId, newToken } from "../ops/clock.ts";
import { failpoints } from "../ops/failpoints.ts";
import { joinTraces, traceOf } from "../ops/hops.ts";
import type { Timing } from "../ops/timing.ts";
import type { StoredSession } from "../pipeline/accept/stage.ts";
import type { ChannelRuntime } from "../pipeline/channel-runtime.ts";
import type { Admission, LiveSessions, SessionContext } from "../pipeline/live-sessions.ts";
import { logOnDisk, type Query } from "../store/driver.ts";
import { refreshLane } from "../store/lanes.ts";
import { insertConversation } from "../store/tables/conversations.ts";
import type { DraftChange, DraftRow } from "../store/tables/drafts.ts";
import { type EventRow, recordOutcome } from "../store/tables/events.ts";
import { isChannelPaused } from "../store/tables/pauses.ts";
import type { SessionRow } from "../store/tables/sessions.ts";
import { appendTurn, enqueueTurn } from "../store/tables/turns.ts";
import {
  admission,
  afterAttempt,
  isConnectionLost,
  isRevived,
  missedReason,
  planCall,
  planEnd,
  planMessage,
  reasonForHumans,
  silentOpening,
} from "./decide.ts";
import {
  closeSession,
  dropDrafts,
  dropRest,
  dropTurns,
  freeConversation,
  insertSession,
  lockSession,
  loseSession,
  markTransferring,
  moveMessages,
  openTurns,
  recordHeard,
  resumeSession,
  reviveSession,
  speakingState,
} from "./rows.ts";

const newer = "the caller said something newer";
const ended = "the call has ended";

export class CallSessions implements LiveSessions {
  readonly #timing: Timing["calls"];

  constructor(timing: Timing["calls"]) {
    this.#timing = timing;
  }

  async routeEvent(
    q: Query,
    line: ChannelRuntime,
    row: EventRow,
    event: StoredSession,
    context: SessionContext,
  ): Promise<void> {
    const { channel } = line;
    const reason = missedReason(event, line.rules);
    const session = await lockSession(q, channel, event.session);
    if (!session && event.state !== "opened") {
      const fields = { channel, event: row.id, state: event.state };
      logOnDisk(q, context.log).info(fields, "session event ignored: unknown session");
      return recordOutcome(q, row.id, { state: "ignored", code: "no-session" });
    }
    const conversation = session
      ? await applyEvent(q, session, event, context, this.#timing)
      : await openCall(q, line, row, event, context, this.#timing);
    await recordOutcome(q, row.id, { state: "routed", code: event.state, conversation });
    const { state, reason: code = null } = event;
    q.hop({ name: "call", channel, trace: "", conversation, session: event.session, state, code });
    if (reason !== null) await line.escalation()?.open(q, { ...about(line, row, conversation), cause: "call", reason });
    const fields = { channel, session: event.session, state: event.state };
    failpoints["session.commit"].publish({ phase: "before", ...fields });
    context.committed.push(() => failpoints["session.commit"].publish({ phase: "after", ...fields }));
  }

  async routeMessage(
    q: Query,
    line: ChannelRuntime,
    { row, event }: Parameters<LiveSessions["routeMessage"]>[2],
    { id, session: conversation, attachments }: Parameters<LiveSessions["routeMessage"]>[3],
    context: SessionContext,
  ): Promise<void> {
    const call = conversation === null ? null : await openTurns(q, { channel: line.channel, id, conversation });
    const session = call?.session ?? null;
    if (conversation === null || call === null || session === null || session.state === "closed") {
      logOnDisk(q, context.log).info(
        { channel: line.channel, event: row.id },
        "session message ignored: no open session",
      );
      return recordOutcome(q, row.id, { state: "ignored", code: "no-session", reason: session ? ended : null });
    }
    const plan = planMessage(call);
    const turn = newId(context.clock.now());
    if (isRevived(session, event.node, context.node)) await reviveSession(q, session, context.node);
    await dropTurns(q, plan, newer, silentOpening);
    for (const one of plan.join) await moveMessages(q, one.id, turn);
    await (plan.drop.length + plan.strip.length > 0 ? enqueueTurn : appendTurn)(q, {
      id: turn,
      conversation,
      channel: row.channel,
      person: event.from.address.toLowerCase(),
      event: row.id,
      trace: joinTraces(...plan.join.map(({ trace }) => trace), traceOf(row.id)),
      question: [...plan.join.map(({ question }) => question), questionText(event, false, attachments)].join("\n"),
      context: questionContext(event),
      address: JSON.stringify(answerTo(event)),
      receivedAt: row.received_at,
      session: session.id,
    });
    await recordOutcome(q, row.id, { state: "routed", conversation, turn });
    if (plan.cancel) context.committed.push(() => context.cancel(conversation));
  }

  async openForHumans(
    q: Query,
    line: ChannelRuntime,
    row: EventRow,
    event: MessageEvent & Required<Pick<MessageEvent, "forHumans">>,
    conversation: string,
  ): Promise<void> {
    const found = reasonForHumans(event, {
      isCall: line.traits.platform === "voice",
      hasTargets: line.rules.notify !== undefined,
    });
    // Responders who were notified of the abandoned call receive this message as an update.
    if (found) await line.escalation()?.open(q, { ...about(line, row, conversation), ...found, news: true });
  }

  async admission(q: Query, draft: DraftRow, session: string): Promise<Admission> {
    const state = await speakingState(q, draft.channel, session, draft.reply);
    // A reply that promises a human waits until the escalation is on disk.
    return { change: admission(draft.state, state, this.#timing), waitsForDisk: state.escalated };
  }

  afterAttempt(outcome: SendOutcome, tryingFor: number): DraftChange {
    return afterAttempt(outcome, tryingFor, this.#timing);
  }
}

/** Applies an event to its session. Returns the conversation. */
async function applyEvent(
  q: Query,
  session: SessionRow,
  event: StoredSession,
  context: SessionContext,
  timing: Timing["calls"],
): Promise<string> {
  switch (event.state) {
    case "opened":
      await resumeSession(q, session, event.node, timing.laneTakeover);
      break;
    case "interrupted":
      if (event.heard !== undefined) await recordHeard(q, session, event.heard, event.about ?? null);
      await dropRest(q, session);
      break;
    case "transferring":
      await markTransferring(q, session, event.reason ?? event.state);
      break;
    case "lost":
      if (isConnectionLost(session, event)) await loseSession(q, session, event.reason ?? null);
      break;
    case "closed":
      await endCall(q, session, event, context);
  }
  return session.conversation;
}

/** Starts a call in the customer's conversation, unless another call is open in it. Returns the conversation. */
async function openCall(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: StoredSession,
  { clock }: SessionContext,
  { reserved }: Timing["calls"],
): Promise<string> {
  const { channel, rules, traits } = line;
  const person = event.from.address.toLowerCase();
  const found = traits.conversations === "person" ? await freeConversation(q, channel, person, reserved) : null;
  const isPaused = rules.mode !== "shadow" && (await isChannelPaused(q, channel));
  const make = { id: () => newId(clock.now()), token: newToken };
  const { conversation, opened, binding } = planCall(line, event, row.received_at, { found, isPaused }, make);
  if (opened !== null) await insertConversation(q, opened);
  await insertSession(q, { channel, id: event.session, conversation, node: event.node });
  if (binding !== null) await enqueueTurn(q, binding);
  return conversation;
}

/** The caller has hung up. */
async function endCall(q: Query, session: SessionRow, event: StoredSession, context: SessionContext): Promise<void> {
  const { conversation } = session;
  const plan = planEnd(await openTurns(q, session));
  await closeSession(q, session, { reason: event.reason ?? null, durationMs: event.durationMs ?? null });
  await dropTurns(q, plan, ended, silentOpening);
  if (plan.drop.length > 0) await refreshLane(q, conversation, "in");
  await dropDrafts(q, session);
  if (plan.cancel) context.committed.push(() => context.cancel(conversation));
}

const about = ({ channel, agent }: ChannelRuntime, { id }: EventRow, conversation: string) => ({
  key: `event:${id}`,
  source: "ours" as const,
  channel,
  agent,
  conversation,
  topic: null,
});
