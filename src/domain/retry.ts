// Delays by schedule, and limits of retries. Pure: schedules are in the timing table (ops/timing.ts); the callers add jitter.

/** The backoff speed of a kind of channel. Calls, texts and chats retry after seconds, mail after minutes. */
export type Pace = "phone" | "mail";

export const paceOf = (platform: string | null): Pace => (platform === "email" ? "mail" : "phone");

/** Returns the delay in milliseconds after that many consecutive failures, at least one. The last delay of the schedule
 *  repeats; an empty schedule has no delay. */
export const delayAfter = (failures: number, schedule: readonly number[]): number =>
  schedule[Math.max(failures, 1) - 1] ?? schedule.at(-1) ?? 0;

/** Maximum number of fetches of an attachment; they span most of a day. */
export const fetchLimit = 10;
/** Maximum number of attempts of a question that leaves no trace on the platform (openings count). */
export const attemptLimit = 8;
/** Number of hard bounces that suppress an address. */
export const strikeLimit = 2;
/** Number of automatic replies of other agents in a thread after which no reply is sent. */
export const hopLimit = 2;
