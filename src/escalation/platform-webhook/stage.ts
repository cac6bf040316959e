// Stage platform-webhook.
// Input: stored deliveries of the platform's webhooks.
// Effect: finds the conversation of each delivery, which may be bound a moment later.
// Output: a due poll of that conversation; an escalation about it, or about the agent when the conversation
// is unknown here.
// Failure: retried later. Crash: the row is still due.

import type { Clock, Log } from "bridgehead/contract";
import type { Policy } from "../../domain/policy.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import type { Timing } from "../../ops/timing.ts";
import type { ChannelRuntimes } from "../../pipeline/channel-runtime.ts";
import type { Raised } from "../../pipeline/escalation.ts";
import type { Query } from "../../store/driver.ts";
import { schedulePoll } from "../../store/tables/polls.ts";
import { aboutAgent, raise } from "../trigger/stage.ts";
import { type PayloadIn, readPayload } from "./decide.ts";
import {
  conversationBoundTo,
  duePlatformWebhooks,
  endPlatformWebhook,
  type PlatformWebhookRow,
  postponePlatformWebhook,
} from "./rows.ts";

export interface PlatformWebhookDeps {
  /** Null when the current configuration has no policy: stored deliveries wait then. */
  readonly policy: () => Policy | null;
  readonly lines: () => ChannelRuntimes;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
}

const batch = 50;

export function platformWebhookStage(deps: PlatformWebhookDeps): TransactionalStage {
  return {
    takes: "escalations",
    async run(q) {
      const policy = deps.policy();
      if (policy === null) return [];
      for (const row of await duePlatformWebhooks(q, batch)) {
        await q
          .savepoint(() => workOff(q, row, policy, deps))
          .catch(async (error: unknown) => {
            deps.log.error(
              { agent: row.agent, intake: row.id, err: error },
              "a webhook's words are not heeded yet",
            );
            await postponePlatformWebhook(q, row, deps.timing.platformWebhook.retryLongest);
          });
      }
      return [];
    },
  };
}

async function workOff(
  q: Query,
  row: PlatformWebhookRow,
  policy: Policy,
  deps: PlatformWebhookDeps,
): Promise<void> {
  const payload = readPayload(row.body);
  const conversation =
    payload.conversation === null ? null : await conversationBoundTo(q, payload.conversation);
  if (conversation !== null) {
    // In the common lock order.
    if (row.kind === "escalation") await raiseIfWanted(q, row, payload, conversation, policy, deps);
    await schedulePoll(q, conversation, 0);
    return endPlatformWebhook(q, row, "done");
  }
  // The request that opens the conversation may still be in progress.
  const { strangerEscalation, strangerMessage, retry, retryLongest } = deps.timing.platformWebhook;
  const waitMs = row.kind === "escalation" ? strangerEscalation : strangerMessage;
  if (payload.conversation !== null && row.age < waitMs)
    return postponePlatformWebhook(q, row, Math.min(retry * 2 ** Math.min(row.attempts, 10), retryLongest));
  // The agent has conversations outside this daemon, such as a chat on a website. Their messages are
  // ignored.
  if (row.kind === "message") return endPlatformWebhook(q, row, "done");
  await raiseIfWanted(q, row, payload, null, policy, deps);
  await endPlatformWebhook(q, row, "lost");
}

async function raiseIfWanted(
  q: Query,
  row: PlatformWebhookRow,
  payload: PayloadIn,
  conversation: { readonly id: string; readonly channel: string; readonly agent: string } | null,
  policy: Policy,
  deps: PlatformWebhookDeps,
): Promise<void> {
  if (!policy.causes.includes("topic")) return;
  const raised = {
    key: keyOf(row),
    source: "webhook",
    cause: "topic",
    topic: payload.topic,
  } as const;
  if (conversation !== null) {
    const { id, channel, agent } = conversation;
    const reason = payload.reason ?? "the platform has escalated the conversation";
    await raise(q, { ...raised, channel, agent, conversation: id, reason }, deps);
    return;
  }
  const line = [...deps.lines().values()].find(
    ({ agent, traits }) => agent === row.agent && traits.platform !== null,
  );
  const lost: Raised = {
    ...raised,
    channel: line?.channel ?? row.agent,
    agent: row.agent,
    conversation: null,
    reason: lostReason(payload),
  };
  deps.log.warn(
    { agent: row.agent, intake: row.id },
    "the platform escalates a conversation that is not ours",
  );
  await raise(q, lost, deps, aboutAgent(row.agent, payload.conversation ?? row.id));
}

/** A delivery identified only by its hash may occur again as a new one, so its key includes the time of
 *  receipt. */
const keyOf = ({ agent, id, received_at }: PlatformWebhookRow): string =>
  id.startsWith("sha256:") ? `webhook:${agent}:${id}:${received_at}` : `webhook:${agent}:${id}`;

/** Contains every field of the payload, because the responder has no other information. */
function lostReason({ conversation, reason, person, message }: PayloadIn): string {
  const which = conversation === null ? "a conversation it does not name" : `conversation ${conversation}`;
  const parts = [
    `the platform has escalated ${which}, which is not known here`,
    ...(reason === null ? [] : [`reason: ${reason}`]),
    ...(person === null ? [] : [`person: ${person}`]),
    ...(message === null ? [] : [`message: ${message}`]),
  ];
  return parts.join("; ");
}
