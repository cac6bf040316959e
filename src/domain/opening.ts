// A conversation that we begin: a turn without a question.

/** What an opening turn carries (`turns.opening`). Null leaves it to the settings of the agent's skill. */
export interface Opening {
  /** The first words: of the start call, and (`speak`) of what the person gets. */
  readonly introduction: string | null;
  readonly subject: string | null;
  /** About the conversation; only the agent sees it. */
  readonly context: string | null;
  /** False: the platform's conversation is bound and nothing is said (a call greets by itself). */
  readonly speak: boolean;
}

/** As it stands in the store. */
export function writeOpening({ introduction, subject, context, speak }: Opening): string {
  return JSON.stringify({ introduction, subject, context, speak });
}

/** The inverse of `writeOpening`. */
export function readOpening(text: string): Opening {
  return JSON.parse(text) as Opening;
}
