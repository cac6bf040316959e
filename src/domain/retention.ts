// Retention: how long data is kept under the configuration and the DATA_RETENTION skill of an agent.

import { dayMs } from "./hours.ts";

/** How long data is kept, in milliseconds. */
export interface RetentionAges {
  /** Raw messages, attachments and sent files. */
  readonly rawMs: number;
  /** Text of completed work, senders and subjects. */
  readonly eventsMs: number;
  /** Names and addresses of conversations without activity. */
  readonly peopleMs: number;
}

/** An active DATA_RETENTION skill. */
export interface RetentionSkill {
  readonly days: number;
  /** anonymizeConversations: the texts are erased. */
  readonly conversations: boolean;
  /** anonymizeConversationUsers: names and addresses are erased. */
  readonly people: boolean;
}

/** Returns the shorter of both ages for each kind of data: a skill never keeps data longer than the configuration. Raw
 *  messages contain texts, names and addresses, so both flags apply to them. Names and addresses stay as long as a text of
 *  their conversation, so `people` applies to texts, too. */
export function stricter(configured: RetentionAges, skill: RetentionSkill | null | undefined): RetentionAges {
  if (!skill || !(skill.days >= 0)) return configured;
  const age = skill.days * dayMs;
  const text = skill.conversations ? age : Number.POSITIVE_INFINITY;
  const people = skill.people ? age : Number.POSITIVE_INFINITY;
  return {
    rawMs: Math.min(configured.rawMs, text, people),
    eventsMs: Math.min(configured.eventsMs, text, people),
    peopleMs: Math.min(configured.peopleMs, people),
  };
}
