// Live sessions (calls): part of stage route. A session is one row that outlives its sockets. While it is
// open, the lanes of its conversation belong to the node that holds the socket. The caller's latest message
// has priority. Older messages that were not asked are joined to it. Older questions that were asked are
// dropped with their answers.

import { type Address, answerTo } from "../domain/address.ts";
import { barred } from "../domain/guards.ts";
import { writeOpening } from "../domain/opening.ts";
import { questionContext, questionText } from "../domain/question.ts";
import { newId, newToken } from "../ops/clock.ts";
import { failpoint } from "../ops/failpoints.ts";
import type { StoredMessage, StoredSession } from "../pipeline/accept/stage.ts";
import { type ChannelRuntime, whyNotAsk } from "../pipeline/channel-runtime.ts";
import type { LiveSessions, SessionContext } from "../pipeline/live-sessions.ts";
import type { Query } from "../store/driver.ts";
import { lockLane, refreshLane } from "../store/lanes.ts";
import { addParticipant, insertConversation, readConversation } from "../store/tables/conversations.ts";
import { attachmentsOf, type EventRow, settleEvent } from "../store/tables/events.ts";
import {
  closeSession,
  freeConversation,
  handOver,
  insertSession,
  isBegun,
  loseSession,
  readSession,
  resumeSession,
  reviveSession,
  type SessionRow,
} from "../store/tables/sessions.ts";
import { enqueueTurn } from "../store/tables/turns.ts";
import { raiseForHumans, raiseUnserved } from "./missed-calls.ts";
import { afterSaying, mayBeSaid } from "./session-drafts.ts";
import {
  dropDrafts,
  dropRest,
  dropTurn,
  dropWaitingOpenings,
  leaveOpening,
  moveWords,
  noteHeard,
  openWords,
} from "./superseded.ts";

/** The implementation of the pipeline's interface to live sessions. */
export const liveSessions: LiveSessions = {
  routeEvent: routeSession,
  routeMessage: routeWords,
  openForHumans: raiseForHumans,
  admit: mayBeSaid,
  afterAttempt: afterSaying,
};

const newer = "the caller said something newer";
const ended = "the call has ended";
const silentOpening = { introduction: null, subject: null, context: null, speak: false };

/** Applies a session event to its session and settles the event. */
async function routeSession(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: StoredSession,
  deps: SessionContext,
): Promise<void> {
  const known = await readSession(q, line.channel, event.session);
  if (!known && event.state !== "opened") {
    deps.log.info({ channel: line.channel, event: row.id, state: event.state }, "no such session");
    return settleEvent(q, row.id, { state: "ignored", code: "no-session" });
  }
  const conversation = known
    ? await happened(q, known, event, deps)
    : await opened(q, line, row, event, deps);
  await settleEvent(q, row.id, { state: "routed", code: event.state, conversation });
  await raiseUnserved(q, line, row, event, conversation);
  const fields = { channel: line.channel, session: event.session, state: event.state };
  failpoint("session.commit", "before", fields);
  deps.committed.push(() => failpoint("session.commit", "after", fields));
}

async function happened(
  q: Query,
  session: SessionRow,
  event: StoredSession,
  deps: SessionContext,
): Promise<string> {
  switch (event.state) {
    case "opened":
      await resumeSession(q, session, event.node);
      break;
    case "interrupted":
      if (event.heard !== undefined) await noteHeard(q, session, event.heard, event.about ?? null);
      await dropRest(q, session.conversation, session.id);
      break;
    case "handing-over":
      await handOver(q, session, event.reason ?? event.state);
      break;
    case "lost":
      // Ignores the report of a node that no longer has the session: an older connection timed out after
      // the call had moved to another node.
      if (event.node === session.node) await loseSession(q, session, event.reason ?? null);
      break;
    case "closed":
      await close(q, session, event, deps);
      break;
  }
  return session.conversation;
}

/** Starts a call in the customer's conversation, unless another call is open in it. The platform's
 *  conversation is bound before the first message, so that the first answer does not wait for the
 *  binding. */
async function opened(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: StoredSession,
  deps: SessionContext,
): Promise<string> {
  const { channel } = line;
  const person = event.from.address.toLowerCase();
  const found = line.traits.conversations === "person" ? await freeConversation(q, channel, person) : null;
  const conversation = found ?? newId(deps.clock.now());
  if (!found) {
    await insertConversation(q, {
      id: conversation,
      channel,
      agent: line.agent,
      person,
      person_name: event.from.name ?? null,
      subject: null,
      token: newToken(),
    });
    await addParticipant(q, conversation, person);
  }
  await insertSession(q, { channel, id: event.session, conversation, node: event.node });
  if (whyNotAsk(line) === null && barred(person, line.rules) === null && !(await isBegun(q, conversation))) {
    const address: Address = {
      to: [event.from],
      cc: [],
      subject: null,
      answers: null,
      history: [],
      hops: 1,
      session: event.session,
    };
    await enqueueTurn(q, {
      id: newId(deps.clock.now()),
      conversation,
      channel,
      person,
      event: null,
      question: "",
      context: null,
      address: JSON.stringify(address),
      receivedAt: row.received_at,
      session: event.session,
      opening: writeOpening(silentOpening),
    });
  }
  return conversation;
}

/** The caller has hung up: drops queued work and cancels the running question. An opening that was
 *  already started continues. */
async function close(
  q: Query,
  session: SessionRow,
  event: StoredSession,
  deps: SessionContext,
): Promise<void> {
  const { conversation, id } = session;
  await closeSession(q, session, {
    reason: event.reason ?? null,
    durationMs: event.durationMs ?? null,
  });
  await lockLane(q, conversation, "in");
  const bound = (await readConversation(q, conversation)).platform_id !== null;
  const words = await openWords(q, conversation, id);
  for (const turn of words) {
    if (turn.state === "waiting" || bound) await dropTurn(q, turn, ended);
    else await leaveOpening(q, turn.id, writeOpening(silentOpening));
  }
  await dropWaitingOpenings(q, conversation, id);
  await refreshLane(q, conversation, "in");
  await dropDrafts(q, conversation, id);
  if (bound && words.some(({ state }) => state !== "waiting")) {
    deps.committed.push(() => deps.cancel(conversation));
  }
}

/** Routes a message of a session. Caps and `max_age` do not apply: the call itself is the limit. */
async function routeWords(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: StoredMessage,
  id: string,
  deps: SessionContext,
): Promise<void> {
  const session = await readSession(q, line.channel, id);
  if (!session || session.state === "closed") {
    deps.log.info({ channel: line.channel, event: row.id }, "said in no session");
    return settleEvent(q, row.id, {
      state: "ignored",
      code: "no-session",
      reason: session ? ended : null,
    });
  }
  const { conversation } = session;
  // A message proves that the caller is connected. The lost connection was an older one, or this node was
  // cut off. Only messages that this process received itself are proof.
  if (session.state === "lost" && event.node === deps.node) await reviveSession(q, session, deps.node);
  await lockLane(q, conversation, "in");
  const turn = newId(deps.clock.now());
  const earlier = await supersede(q, session, turn, deps);
  const own = questionText(event, false, await attachmentsOf(q, row.id));
  await enqueueTurn(q, {
    id: turn,
    conversation,
    channel: row.channel,
    person: event.from.address.toLowerCase(),
    event: row.id,
    question: [...earlier, own].join("\n"),
    context: questionContext(event),
    address: JSON.stringify(answerTo(event)),
    receivedAt: row.received_at,
    session: session.id,
  });
  await settleEvent(q, row.id, { state: "routed", conversation, turn });
}

/** Returns the text of older turns that were not asked, for the new turn. Older turns that were asked
 *  are dropped, because their answers would be late and answer an outdated question. */
async function supersede(q: Query, session: SessionRow, by: string, deps: SessionContext): Promise<string[]> {
  const bound = (await readConversation(q, session.conversation)).platform_id !== null;
  // Also cancels a question that another node found obsolete but could not cancel.
  if (bound) deps.committed.push(() => deps.cancel(session.conversation));
  const words = await openWords(q, session.conversation, session.id);
  const taken: string[] = [];
  for (const turn of words) {
    if (turn.state !== "waiting" && bound) {
      await dropTurn(q, turn, newer);
      continue;
    }
    taken.push(turn.question);
    await moveWords(q, turn.id, by);
    // The conversation is not bound yet: the running work is the opening, which must not start twice.
    if (turn.state === "waiting") await dropTurn(q, turn, newer);
    else await leaveOpening(q, turn.id, writeOpening(silentOpening));
  }
  return taken;
}
