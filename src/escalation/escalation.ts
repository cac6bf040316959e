// Implements the pipeline's interface to escalation handling (`pipeline/escalation.ts`). Detection,
// hand-over and polling of the platform's conversation do not depend on a policy; notifying responders
// does.

import type { Clock, Log } from "bridgehead/contract";
import type { Answer } from "../agent/calls.ts";
import { type Policy, pollingOf } from "../domain/policy.ts";
import { normalizeWhitespace } from "../domain/turn.ts";
import { newId } from "../ops/clock.ts";
import type { Timing } from "../ops/timing.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../pipeline/channel-runtime.ts";
import type { Escalation, Raised } from "../pipeline/escalation.ts";
import type { Query } from "../store/driver.ts";
import type { ConversationRow } from "../store/tables/conversations.ts";
import {
  type EscalationRow,
  hastenEscalation,
  liveEscalation,
  lockEscalations,
  readEscalation,
  reopenEscalation,
} from "../store/tables/escalations.ts";
import { schedulePoll } from "../store/tables/polls.ts";
import {
  addNotification,
  isHeard,
  type NotificationRow,
  notificationsOf,
  readTarget,
  type TargetRow,
  targetsOf,
} from "../store/tables/responders.ts";
import { isHumans } from "../store/tables/takeover.ts";
import type { TurnRow } from "../store/tables/turns.ts";
import { customerText } from "./notify/text.ts";
import { routeResponderReply } from "./reply/stage.ts";
import { aboutConversation, logUnnotified, raise } from "./trigger/stage.ts";

export interface EscalationDeps {
  /** Null when the current configuration has no policy. */
  readonly policy: () => Policy | null;
  /** False while no responder was ever notified and none is configured: then no message can be a
   *  responder's reply, and the look-up is skipped. Default: true. */
  readonly hasResponders?: () => boolean;
  readonly lines: () => ChannelRuntimes;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
}

export function createEscalation(deps: EscalationDeps): Escalation {
  const { clock, log } = deps;
  const timing = deps.timing.escalation;

  async function raiseIfWanted(q: Query, raised: Raised): Promise<void> {
    const policy = deps.policy();
    if (policy?.causes.includes(raised.cause)) await raise(q, raised, deps);
    // The customer waits for a human. Without responders this log line is the only record.
    else if (policy === null && raised.source !== "ours") logUnnotified(log, raised);
  }

  /** Handles a turn without an answer: passes the customer's text to the responder who acknowledged the
   *  escalation, or raises an escalation. */
  async function unanswered(
    q: Query,
    line: ChannelRuntime,
    conversation: ConversationRow,
    turn: TurnRow,
  ): Promise<void> {
    const row = await liveEscalation(q, aboutConversation(conversation.id));
    if (row?.state === "taken") {
      const customer = conversation.person_name ?? conversation.person;
      // The responder's answer goes to the customer even when another sender wrote in the thread.
      const who =
        turn.person === conversation.person ? customer : `${turn.person} (in the thread of ${customer})`;
      const text = customerText(row, who, turn.question);
      for (const { id } of await listenersOf(q, row)) await passOn(q, id, { subject: turn.id, text });
      return;
    }
    const reason = "the customer wrote, and no agent answers (manual mode)";
    await raiseIfWanted(q, {
      ...about(line, conversation),
      key: `silent:${turn.id}`,
      source: "ours",
      cause: "silent",
      reason,
    });
  }

  /** Returns true when the answer is a configured escalation response. Raises the escalation then. */
  async function heed(
    q: Query,
    line: ChannelRuntime,
    conversation: ConversationRow,
    turn: TurnRow,
    answer: Answer,
  ): Promise<boolean> {
    if (answer.text === null || answer.text.trim() === "") {
      await unanswered(q, line, conversation, turn);
      return false;
    }
    const found = (line.settings()?.escalations ?? []).filter(({ response }) =>
      same(response, answer.text ?? ""),
    );
    const [first, ...others] = found.map(({ topic }) => topic);
    if (first === undefined) return false;
    await raiseIfWanted(q, {
      ...about(line, conversation),
      key: `response:${answer.replyId ?? turn.id}`,
      source: "response",
      cause: "topic",
      // Several topics share this response, so the answer does not identify the topic.
      topic: others.length === 0 ? first : null,
      reason: "the agent gave the answer it has for this escalation",
    });
    return true;
  }

  const passOn = (q: Query, contact: string, { subject, text }: Pick<NotificationRow, "subject" | "text">) =>
    addNotification(q, { id: newId(clock.now()), contact, kind: "customer", subject, text }, 0);

  /** Handles a notification that cannot be delivered. The next step of the policy becomes due at once. A
   *  customer's text is passed to all contacts of the escalation instead. */
  async function overtake(q: Query, notice: NotificationRow): Promise<void> {
    const { escalation } = await readTarget(q, notice.contact);
    if (notice.kind !== "customer") return hastenEscalation(q, escalation, timing.repeatFailed);
    // The last two contacts may fail at two nodes at the same time. The lock lets one transaction see the
    // other.
    await lockEscalations(q, [escalation]);
    for (const { id } of await targetsOf(q, escalation)) await passOn(q, id, notice);
    if (await isHeard(q, escalation, notice.subject)) return;
    if (await reopenEscalation(q, escalation))
      log.error({ escalation }, "nobody hears what the customer writes: people are told again");
  }

  return {
    raise: raiseIfWanted,
    async hear(q, line, row, event) {
      if (deps.hasResponders?.() === false) return false;
      return routeResponderReply(q, line, row, event, deps);
    },
    async answered(q, line, { conversation, turn }, answer: Answer) {
      if (turn.kind !== "question") return false;
      const escalations = line.settings()?.escalations ?? [];
      const hasEscalated = await heed(q, line, conversation, turn, answer);
      // Polls also after a turn without an answer: a human may answer on the platform. Locks are taken in
      // the usual order.
      const { poll } = pollingOf(deps.policy(), timing);
      await schedulePoll(q, conversation, escalations.length > 0 ? timing.pollAfterAnswer : poll);
      return hasEscalated && turn.session !== null;
    },
    async stuck(q, line, draft, { state, reason }) {
      const notices = await notificationsOf(q, draft.reply);
      if (notices.length > 0) {
        const escalations: number[] = [];
        for (const notice of notices) {
          const { escalation } = await readTarget(q, notice.contact);
          escalations.push((await readEscalation(q, escalation)).number);
          await overtake(q, notice);
        }
        const fields = { channel: line.channel, draft: draft.id, escalations, state, reason };
        log.error(fields, "a notice of an escalation is stuck");
        return;
      }
      const { channel, agent } = line;
      const cause = state === "held" ? "held" : "turn-failed";
      if (deps.policy() !== null && (await isHumans(q, draft.reply))) {
        // The human who wrote the reply assumes that the customer has received it.
        const key = `draft:${draft.id}:${state}`;
        const own = { channel, agent, conversation: draft.conversation, topic: null };
        const why = `the answer did not reach the customer (${state}): ${reason}`;
        await raise(q, { ...own, key, source: "ours", cause, reason: why, news: true }, deps);
        return;
      }
      if (state === "dropped") return;
      const raised = { channel, agent, conversation: draft.conversation, topic: null, reason };
      await raiseIfWanted(q, { ...raised, key: `draft:${draft.id}:${state}`, source: "ours", cause });
    },
  };
}

/** Returns the contact that acknowledged the escalation, or all notified contacts when a command
 *  acknowledged it. */
async function listenersOf(q: Query, row: EscalationRow): Promise<readonly TargetRow[]> {
  if (row.taken_contact !== null) return [await readTarget(q, row.taken_contact)];
  return (await targetsOf(q, row.id)).filter(({ conversation }) => conversation !== null);
}

const about = ({ channel, agent }: ChannelRuntime, { id }: ConversationRow) => ({
  channel,
  agent,
  conversation: id,
  topic: null,
});

/** Compares without case. An empty configured response never matches. */
function same(configured: string, said: string): boolean {
  const wanted = normalizeWhitespace(configured).toLowerCase();
  return wanted !== "" && wanted === normalizeWhitespace(said).toLowerCase();
}
