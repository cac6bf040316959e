// Stage ask.
// Takes: the head of a conversation's inbound lane: a turn `waiting`, or one whose attempt has no known outcome.
// Does: opens the platform's conversation when there is none; puts the question; looks an unanswered question up.
// Leaves: turn `answered` with its reply, `silent`, `waiting` until, `unknown` until the next look, or `failed`.
// If it fails: by outcome; a question that may have been put is looked up, never repeated.
// If the process dies: the turn is `asking` with a dead lease: the next holder treats it as `unknown`.

import type { Clock, Log } from "bridgehead/contract";
import type { Answer, CallResult, Found, Started } from "../agent/calls.ts";
import { answerLifetime, askDelay, askLifetime, lookDelay } from "../domain/retry.ts";
import { point } from "../ops/points.ts";
import { type ConversationRow, isBound, readConversation } from "../store/conversations.ts";
import type { Database, Query } from "../store/driver.ts";
import { channelsWithDueLanes, type Lease, leaseLanes, releaseLane } from "../store/lanes.ts";
import { type Rate, takeRate } from "../store/rates.ts";
import { headTurn, platformIds, recordAsking, type TurnRow } from "../store/turns.ts";
import * as leave from "./answer.ts";
import { type Line, type Lines, whyNotAsk } from "./line.ts";
import { foreignKey, openingOf } from "./opening.ts";
import { rateName } from "./rate.ts";
import type { Claimed, Stage, Transition } from "./step.ts";

export interface AskDeps {
  readonly lines: () => Lines;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  readonly rate: Rate;
  /** Milliseconds one call may take. */
  readonly timeout: number;
  /** Milliseconds after an unanswered call before "the question is not there" is believed. */
  readonly settleAfter: number;
}

/** One claimed turn with all that deciding needs. */
export interface Asking {
  readonly line: Line;
  readonly lease: Lease;
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
}

const leaseMargin = 15_000;
const maxWait = 2000;

export function askStage(deps: AskDeps): Stage {
  let nextRateAt = 0;
  return {
    name: "ask",
    async channels(q) {
      if (deps.clock.monotonic() < nextRateAt) return [];
      const due = await channelsWithDueLanes(q, "in");
      return due.filter((channel) => {
        const line = deps.lines().get(channel);
        return line !== undefined && whyNotAsk(line) === null;
      });
    },
    async claim(q, channel, room) {
      const line = deps.lines().get(channel);
      if (!line) return [];
      const claimed: Claimed[] = [];
      for (const lease of await leaseLanes(
        q,
        "in",
        channel,
        deps.node,
        deps.timeout + maxWait + leaseMargin,
        room,
      )) {
        const turn = await headTurn(q, lease);
        if (!turn) {
          await releaseLane(q, lease, "in");
          continue;
        }
        const asking = { line, lease, turn, conversation: await readConversation(q, turn.conversation) };
        const rate = await takeRate(q, rateName, deps.rate, callsOf(asking), maxWait);
        if (!rate.taken) {
          // The lane stays due; nobody looks again before the rate has room.
          await releaseLane(q, lease, "in");
          nextRateAt = deps.clock.monotonic() + Math.min(rate.waitMs, 1000);
          continue;
        }
        if (turn.state === "waiting") await recordAsking(q, turn, deps.node, lease.token);
        claimed.push(piece(asking, rate.waitMs, deps));
      }
      return claimed;
    },
  };
}

/** How many calls the work can make at most: each is taken from the shared rate. */
function callsOf({ line, turn, conversation }: Asking): number {
  if (conversation.platform_id !== null) return turn.state === "waiting" ? 1 : 2;
  return (turn.attempts > 0 ? 1 : 0) + (line.rules.opening === "create" ? 3 : 1);
}

function piece(asking: Asking, waitMs: number, deps: AskDeps): Claimed {
  const fields = { channel: asking.line.channel, turn: asking.turn.id };
  const opening = asking.conversation.platform_id === null;
  return {
    channel: asking.line.channel,
    recorded: (phase) => point("ask.record", phase, fields),
    committing: (phase) => point(opening ? "open.commit" : "answer.commit", phase, fields),
    async work(signal) {
      if (waitMs > 0) await deps.clock.sleep(waitMs, signal);
      return decide(asking, signal, deps);
    },
  };
}

/** Which call is due. A turn without the platform's conversation was never put as a question: binding comes first, in
 *  a commit of its own. */
async function decide(asking: Asking, signal: AbortSignal, deps: AskDeps): Promise<Transition> {
  const repeated = asking.turn.state !== "waiting";
  const platformId = asking.conversation.platform_id;
  if (platformId === null) return open(asking, repeated, signal, deps);
  return repeated ? lookUp(asking, platformId, signal, deps) : ask(asking, platformId, signal, deps);
}

/** `crossed` tells a shutdown before the first byte (certain) from one after it. */
function effect(point_: "open.cross" | "ask.cross", asking: Asking, signal: AbortSignal, deps: AskDeps) {
  const fields = { channel: asking.line.channel, turn: asking.turn.id };
  return {
    signal: AbortSignal.any([signal, AbortSignal.timeout(deps.timeout)]),
    crossing: () => point(point_, "before", fields),
    crossed: () => point(point_, "after", fields),
  };
}

async function open(
  asking: Asking,
  repeated: boolean,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { line, conversation } = asking;
  if ((repeated || asking.turn.attempts > 0) && asking.turn.reason !== leave.lostMark) {
    const adopted = await findOpened(asking, signal, deps);
    if (adopted) return (q) => leave.bound(q, asking, adopted);
  }
  const call = effect("open.cross", asking, signal, deps);
  const request = openingOf(line, conversation);
  const result: CallResult<Started> =
    request.kind === "start"
      ? await line.client.start(request.body, call)
      : await line.client.create(request.body, call);
  call.crossed();
  return concluded(asking, result, deps, (started) => (q) => leave.bound(q, asking, started.conversationId));
}

/** A conversation the platform opened for this person in an attempt whose answer never came back. */
async function findOpened(asking: Asking, signal: AbortSignal, deps: AskDeps): Promise<string | null> {
  const { line, conversation } = asking;
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(deps.timeout)]);
  const result = await line.client.findConversations(foreignKey(conversation), deadline);
  if (result.kind !== "ok") return null;
  for (const id of [...result.value].reverse()) {
    if (!(await deps.db.read((q) => isBound(q, id)))) return id;
  }
  return null;
}

async function ask(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { line, turn } = asking;
  const call = effect("ask.cross", asking, signal, deps);
  const question =
    turn.context === null ? { text: turn.question } : { text: turn.question, context: turn.context };
  const result = await line.client.ask(platformId, question, call);
  call.crossed();
  return concluded(
    asking,
    result,
    deps,
    (answer: Answer) => (q) => leave.answered(q, asking, answer, deps.clock),
  );
}

/** The transition for a call's result; `done` for the good one. */
function concluded<T>(
  asking: Asking,
  result: CallResult<T>,
  deps: AskDeps,
  done: (value: T) => Transition,
): Transition {
  const { turn, line } = asking;
  if (result.kind !== "ok") {
    deps.log.warn(
      { channel: line.channel, turn: turn.id, result: result.kind, reason: result.reason },
      "the platform did not answer",
    );
  }
  switch (result.kind) {
    case "ok":
      line.report(null);
      return done(result.value);
    case "unauthorized":
      line.report(result.reason);
      // Nothing more is asked until the agent's next reading of its settings shows that the key is accepted again.
      return (q) => leave.waiting(q, asking, "deferred", result.reason, askDelay(0));
    case "missing":
      return (q) => leave.gone(q, asking, result.reason);
    case "refused":
      return (q) => leave.failed(q, asking, "refused", result.reason);
    case "deferred": {
      if (turn.age > askLifetime)
        return (q) => leave.failed(q, asking, "deferred", `given up: ${result.reason}`);
      const delay = result.retryAfterMs ?? askDelay(turn.attempts + (turn.state === "waiting" ? 1 : 0));
      return (q) => leave.waiting(q, asking, "deferred", result.reason, delay, result.limited ? delay : 0);
    }
    case "unknown":
      return (q) => leave.unknown(q, asking, result.reason, lookDelay(0));
  }
}

async function lookUp(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { line, turn } = asking;
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(deps.timeout)]);
  const knownIds = await deps.db.read((q: Query) => platformIds(q, platformId, turn.id));
  const result = await line.client.lookUp(platformId, { text: turn.question, knownIds }, deadline);
  if (result.kind === "ok") return found(asking, platformId, result.value, deadline, deps);
  deps.log.warn(
    { channel: line.channel, turn: turn.id, result: result.kind, reason: result.reason },
    "looking a question up failed",
  );
  const old = (turn.asked_ago ?? 0) > deps.settleAfter;
  // 404 for the whole conversation: what was asked in it is gone with it, so the question is not there either.
  if (result.kind === "missing" && old) return (q) => leave.gone(q, asking, result.reason);
  return (q) => leave.unknown(q, asking, result.reason, lookDelay(turn.looks + 1));
}

async function found(
  asking: Asking,
  platformId: string,
  state: Found,
  deadline: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { turn, line } = asking;
  const askedAgo = turn.asked_ago ?? 0;
  switch (state.state) {
    case "answered":
      return (q) => leave.answered(q, asking, state.answer, deps.clock);
    case "absent":
      if (askedAgo >= deps.settleAfter)
        return (q) => leave.waiting(q, asking, "refused", "the question never arrived", 0);
      return (q) =>
        leave.unknown(
          q,
          asking,
          "not there yet",
          Math.min(lookDelay(turn.looks), deps.settleAfter - askedAgo + 10),
        );
    case "pending": {
      const mode = await line.client.mode(platformId, deadline);
      if (mode.kind === "ok" && mode.value === "manual") {
        return (q) =>
          leave.answered(q, asking, { questionId: state.questionId, replyId: null, text: null }, deps.clock);
      }
      if (askedAgo > answerLifetime)
        return (q) => leave.failed(q, asking, "sent", "the platform has the question and gave no answer");
      return (q) =>
        leave.unknown(q, asking, "asked, not answered yet", lookDelay(turn.looks), state.questionId);
    }
  }
}
