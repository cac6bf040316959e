// Stage ask.
// Input: the head of a conversation's inbound lane: a turn `waiting`, or one whose attempt has no known
// outcome.
// Effect: opens the platform's conversation when there is none; sends the question; looks up an unanswered
// question.
// Output: turn `answered` with its reply, `silent`, `waiting` until its retry, `unknown` until the next
// lookup, or `failed`.
// Failure: depends on the outcome. A question that may have been sent is looked up and never repeated.
// Crash: before the crossing the turn is `waiting` and is asked again immediately. After it the turn is
// `asking` with an expired lease, which the next holder treats as `unknown`.

import type { Answer, CallResult, Started } from "../../agent/calls.ts";
import type { Address } from "../../domain/address.ts";
import { readOpening } from "../../domain/opening.ts";
import { leaseDeadline } from "../../engine/lease-deadline.ts";
import type { Claimed, Stage, Transition } from "../../engine/stage.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Query } from "../../store/driver.ts";
import { abandonLane, channelsWithDueLanes, leaseLanes, releaseLane } from "../../store/lanes.ts";
import { takeRate } from "../../store/rates.ts";
import { readConversation } from "../../store/tables/conversations.ts";
import { settleEventsOf } from "../../store/tables/events.ts";
import { suppression } from "../../store/tables/suppressions.ts";
import { changeTurn, headTurn, type TurnRow } from "../../store/tables/turns.ts";
import { prepared, whyNotAsk } from "../channel-runtime.ts";
import { rateName } from "../rate.ts";
import { suppressedCode } from "../route/consent.ts";
import { type AskDeps, type Asking, readTimeout } from "./asking.ts";
import { concluded, effect } from "./crossing.ts";
import { findOpened, lookUp } from "./lookup.ts";
import { openingOf, opensByCreate } from "./opening.ts";
import * as leave from "./outcomes.ts";
import { findSaid, say, tellMode } from "./relaying.ts";

const leaseMargin = 15_000;
const maxWait = 2000;

export function askStage(deps: AskDeps): Stage {
  let nextRateAt = 0;
  // One lease covers a wait for the rate limit, a lookup and an effect. It is never renewed.
  const leaseMs = maxWait + readTimeout(deps) + deps.timeout + leaseMargin;
  return {
    name: "ask",
    takes: "turns",
    async channels(q) {
      if (deps.clock.monotonic() < nextRateAt) return [];
      const due = await channelsWithDueLanes(q, "in", deps.node);
      return due.filter((channel) => {
        const line = deps.lines().get(channel);
        return line !== undefined && whyNotAsk(line) === null;
      });
    },
    async claim(q, channel, room) {
      const line = deps.lines().get(channel);
      if (!line) return [];
      if (deps.clock.monotonic() < nextRateAt) return [];
      const claimed: Claimed[] = [];
      for (const lease of await leaseLanes(q, "in", channel, deps.node, leaseMs, room)) {
        const turn = await headTurn(q, lease);
        if (!turn) {
          await releaseLane(q, lease, "in");
          continue;
        }
        if (await mayNotAnswer(q, turn)) {
          await releaseLane(q, lease, "in");
          continue;
        }
        const asking = {
          line,
          lease,
          leaseDeadline: leaseDeadline(deps.clock, leaseMs),
          turn,
          conversation: await readConversation(q, turn.conversation),
          clock: deps.clock,
          node: deps.node,
          attempt: { recorded: false, obsolete: false },
        };
        const rate = await takeRate(q, rateName, deps.rate, callsOf(asking), maxWait);
        if (!rate.taken) {
          // The lane stays due. No channel is claimed before the rate limit has room again.
          await releaseLane(q, lease, "in");
          nextRateAt = deps.clock.monotonic() + Math.min(rate.waitMs, 1000);
          continue;
        }
        claimed.push(piece(asking, rate.waitMs, deps));
      }
      return claimed;
    },
  };
}

/** Drops a turn that was certainly not asked when the recipient is suppressed, for example by a STOP
 *  that arrived while the turn waited. Messages of a call and messages written by a human are exempt.
 *  Returns true when the turn was dropped. */
async function mayNotAnswer(q: Query, turn: TurnRow): Promise<boolean> {
  if (turn.state !== "waiting" || turn.session !== null || turn.kind !== "question") return false;
  const { to } = JSON.parse(turn.address) as Partial<Address>;
  const suppressed = await suppression(q, turn.channel, to?.[0]?.address ?? turn.person);
  if (suppressed === null) return false;
  const reason = `suppressed: ${suppressed}`;
  await changeTurn(q, turn.id, { state: "dropped", open: 0, reason });
  await settleEventsOf(q, turn.id, { state: "ignored", code: suppressedCode, reason });
  return true;
}

/** The highest number of API calls that the work can make. Each call counts against the shared rate
 *  limit. */
function callsOf({ line, turn, conversation }: Asking): number {
  if (conversation.platform_id !== null) return turn.state === "waiting" && turn.kind !== "relayed" ? 1 : 2;
  return turn.state === "waiting" && opensByCreate(line, conversation) ? 3 : 1;
}

function piece(asking: Asking, waitMs: number, deps: AskDeps): Claimed {
  const fields = { channel: asking.line.channel, turn: asking.turn.id };
  const opening = asking.conversation.platform_id === null;
  return {
    channel: asking.line.channel,
    // Only in a call does a newer message make an older one obsolete.
    key: asking.turn.session === null ? undefined : asking.turn.conversation,
    left: () => asking.leaseDeadline.left(),
    abandon: (q) => abandonLane(q, asking.lease),
    recorded: () => undefined, // recorded at the crossing (concluding.ts)
    committing: (phase) => failpoint(opening ? "open.commit" : "answer.commit", phase, fields),
    async work(signal) {
      if (waitMs > 0) await deps.clock.sleep(waitMs, signal);
      return decide(asking, signal, deps);
    },
  };
}

/** Selects the API call that is due. A turn without the platform's conversation was never sent as a
 *  question. Binding the conversation comes first, in its own transaction. */
async function decide(asking: Asking, signal: AbortSignal, deps: AskDeps): Promise<Transition> {
  const repeated = asking.turn.state !== "waiting";
  const platformId = asking.conversation.platform_id;
  if (platformId === null) return open(asking, repeated, signal, deps);
  const { opening, kind } = asking.turn;
  if (opening !== null) return (q) => leave.begun(q, asking, opening);
  if (kind === "mode") return tellMode(asking, platformId, signal, deps);
  if (kind === "relayed") return (repeated ? findSaid : say)(asking, platformId, signal, deps);
  return repeated ? lookUp(asking, platformId, signal, deps) : ask(asking, platformId, signal, deps);
}

async function open(
  asking: Asking,
  repeated: boolean,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { line, conversation } = asking;
  if (repeated) return findOpened(asking, signal, deps);
  const call = effect("open.cross", asking, signal, deps);
  const { opening } = asking.turn;
  const request = openingOf(line, conversation, opening === null ? null : readOpening(opening));
  const result: CallResult<Started> =
    request.kind === "start"
      ? await line.client.start(request.body, call)
      : await line.client.create(request.body, call);
  call.crossed();
  return concluded(asking, result, deps, (started) => (q) => leave.bound(q, asking, started.conversationId));
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
  const rendered = result.kind === "ok" ? await prepared(line, result.value.text, call.signal, deps) : null;
  return concluded(
    asking,
    result,
    deps,
    (answer: Answer) => (q) => leave.answered(q, asking, answer, deps.clock, rendered),
  );
}
