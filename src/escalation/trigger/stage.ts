// Triggers: opens escalations, or adds to them. Input: answers of the agent, turns without an answer, undeliverable
// drafts, and triggers of other stages. Effect: detects that a human is needed. Output: an escalation with its
// triggers, and notifications for the responders who know of it; a due poll. Failure: fails with the transaction that
// detected it. Crash: likewise, so a trigger is neither lost nor counted twice.

import type { Log, MessageEvent } from "bridgehead/contract";
import type { Answer } from "../../agent/calls.ts";
import { newId } from "../../ops/clock.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { EscalationHooks, EscalationTrigger, Unsent } from "../../pipeline/escalation.ts";
import { logOnDisk, type Query } from "../../store/driver.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import type { DraftRow } from "../../store/tables/drafts.ts";
import {
  addTriggers,
  type EscalationRow,
  hastenEscalations,
  insertEscalations,
  isTriggered,
  liveEscalation,
  reopenEscalation,
} from "../../store/tables/escalations.ts";
import type { EventRow } from "../../store/tables/events.ts";
import { notifyTargets } from "../../store/tables/responders.ts";
import type { TurnRow } from "../../store/tables/turns.ts";
import type { EscalationCore, EscalationParts } from "../actions.ts";
import { routeResponderReply } from "../reply/stage.ts";
import {
  answerTrigger,
  effectOf,
  type FailedFacts,
  planAnswer,
  planFailed,
  planTriggers,
  type Subject,
  type TriggerEffect,
  type Undelivered,
  undeliverableTrigger,
} from "./decide.ts";
import { loadSubjects, loadUndelivered } from "./rows.ts";

type EscalationDeps = EscalationCore & Pick<EscalationParts, "hasResponders">;

/** Opens or extends the escalations of these triggers. Returns the unclosed ones, by subject. `subjects`: loaded before
 *  by the caller (`loadSubjects`). */
export async function openEscalations(
  q: Query,
  triggers: readonly EscalationTrigger[],
  { clock, log }: Pick<EscalationDeps, "clock" | "log">,
  subjects?: readonly Subject[],
): Promise<ReadonlyMap<string, EscalationRow>> {
  const known = subjects ?? (await loadSubjects(q, triggers));
  const { opened, recorded, updates } = planTriggers(triggers, known, () => newId(clock.now()));
  const rows = new Map(known.flatMap(({ row }) => (row && row.state !== "closed" ? [[row.about, row]] : [])));
  for (const row of await insertEscalations(q, opened)) {
    rows.set(row.about, row);
    const { channel, number: escalation, cause, conversation } = row;
    logOnDisk(q, log).warn({ channel, escalation, cause, conversation }, "escalation opened");
  }
  for (const { about, key } of opened) {
    if (rows.has(about)) continue;
    // Another transaction has opened it, or has recorded the trigger, since the rows were loaded.
    const live = await liveEscalation(q, about);
    if (live) rows.set(about, live);
    else if (!(await isTriggered(q, key)))
      throw new Error(`opening an escalation about ${about}: it was closed meanwhile`);
  }
  await addTriggers(
    q,
    recorded.flatMap(({ about, escalation, ...trigger }) => {
      const id = escalation ?? rows.get(about)?.id;
      return id === undefined ? [] : [{ ...trigger, escalation: id }];
    }),
  );
  for (const { row, subject, text } of updates)
    await notifyTargets(q, row, { id: newId(clock.now()), kind: "message", subject, text }, "owner");
  return rows;
}

/** Handles notifications that cannot be delivered: by their channel, or because it was removed (`planFailed`). Returns the
 *  numbers of their escalations. */
export async function handleFailedNotifications(
  q: Query,
  failed: Undelivered["notifications"],
  facts: FailedFacts,
  { clock, lines, log, timing }: Omit<EscalationCore, "policy">,
): Promise<readonly number[]> {
  const { hastened, passed } = planFailed(failed, facts, lines());
  await hastenEscalations(q, hastened, timing.escalation.repeatFailed);
  for (const { row, subject, text, isLost } of passed) {
    await notifyTargets(q, row, { id: newId(clock.now()), kind: "customer", subject, text }, "all");
    if (isLost) await reopenUnreached(q, row, log);
  }
  return failed.flatMap(({ escalation }) => facts.rows.get(escalation)?.number ?? []);
}

/** Opens an acknowledged escalation again, because no responder receives the customer's messages. */
export async function reopenUnreached(q: Query, { id, number }: EscalationRow, log: Log): Promise<void> {
  if (await reopenEscalation(q, id))
    logOnDisk(q, log).error(
      { escalation: number },
      "escalation reopened: no responder receives the customer's messages",
    );
}

/** Logs an escalation of the platform for which no responder is configured. Called once per answer or mode change. */
export function logUnnotified(log: Log, { channel, agent, conversation, topic, cause }: EscalationTrigger): void {
  log.warn({ channel, agent, conversation, topic, cause }, "escalation detected, no responder is configured");
}

/** The pipeline's interface to escalations. Detection, transfer and polling of the platform's conversation do not depend
 *  on a policy; notifying responders does. One per daemon. */
export class EscalationHandler implements EscalationHooks {
  readonly #deps: EscalationDeps;

  constructor(deps: EscalationDeps) {
    this.#deps = deps;
  }

  readonly pollAfter = (): number => (this.#deps.policy() ?? this.#deps.timing.escalation).poll;

  async open(q: Query, trigger: EscalationTrigger): Promise<void> {
    await this.#apply(q, effectOf(trigger, this.#deps.policy()), trigger);
  }

  async #apply(q: Query, effect: TriggerEffect, trigger: EscalationTrigger, subject?: Subject): Promise<void> {
    if (effect === "open") await openEscalations(q, [trigger], this.#deps, subject && [subject]);
    if (effect === "log") logUnnotified(logOnDisk(q, this.#deps.log), trigger);
  }

  async routeReply(q: Query, line: ChannelRuntime, row: EventRow, event: MessageEvent): Promise<boolean> {
    if (this.#deps.hasResponders?.() === false) return false;
    return routeResponderReply(q, line, row, event, this.#deps);
  }

  async answered(
    q: Query,
    line: ChannelRuntime,
    { conversation, turn }: { readonly conversation: ConversationRow; readonly turn: TurnRow },
    answer: Answer,
  ): Promise<boolean> {
    const trigger = answerTrigger(line, turn, answer);
    if (trigger === null) return false;
    const [subject] = await loadSubjects(q, [trigger]);
    const about = { conversation, turn };
    const { update, effect, transfers } = planAnswer(trigger, subject?.row ?? null, about, this.#deps.policy());
    if (update !== null) {
      const id = newId(this.#deps.clock.now());
      await notifyTargets(q, update.row, { ...update, id, kind: "customer" }, "notified");
    } else await this.#apply(q, effect, trigger, subject);
    return transfers;
  }

  async undeliverable(
    q: Query,
    line: ChannelRuntime,
    draft: Pick<DraftRow, "id" | "conversation" | "reply">,
    why: Unsent,
  ): Promise<void> {
    const found = await loadUndelivered(q, draft);
    if (found.notifications.length > 0) {
      const escalations = await handleFailedNotifications(q, found.notifications, found.failed, this.#deps);
      const fields = { channel: line.channel, draft: draft.id, escalations, state: why.state, reason: why.reason };
      return logOnDisk(q, this.#deps.log).error(fields, "escalation notification not delivered");
    }
    const trigger = undeliverableTrigger(line, draft, why, found, this.#deps.policy() !== null);
    if (trigger?.news) await openEscalations(q, [trigger], this.#deps);
    else if (trigger) await this.open(q, trigger);
  }
}
