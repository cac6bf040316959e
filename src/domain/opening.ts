// Outbound conversations: a turn without a question.

/** The content of an opening turn (`turns.opening`). Null uses the settings of the agent's skill. */
export interface Opening {
  /** The introduction: sent with the start call and, with `speak`, to the customer. */
  readonly introduction: string | null;
  readonly subject: string | null;
  /** Context of the conversation; only the agent receives it. */
  readonly context: string | null;
  /** False: the platform's conversation is bound and no message is sent (a call has its own greeting). */
  readonly speak: boolean;
}

/** Serializes an opening for the database. */
export function writeOpening({ introduction, subject, context, speak }: Opening): string {
  return JSON.stringify({ introduction, subject, context, speak });
}

/** The inverse of `writeOpening`. */
export function readOpening(text: string): Opening {
  return JSON.parse(text) as Opening;
}
