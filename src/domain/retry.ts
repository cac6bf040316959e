// Backoff schedules, lifetimes and limits. Pure: the callers add jitter.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/** The backoff speed of a kind of channel. SMS and voice retry after seconds, mail after minutes. */
export type Pace = "phone" | "mail";

/** Returns the pace for `Traits.platform`. */
export const paceOf = (platform: string | null): Pace =>
  platform === "sms" || platform === "voice" ? "phone" : "mail";

/** For mail the usual retry schedule (RFC 5321 4.5.4.1 asks for at least 30 minutes after the first
 *  tries and 4-5 days). */
const sendSchedules: Readonly<Record<Pace, readonly number[]>> = {
  phone: [2 * second, 5 * second, 15 * second, 30 * second, minute, 2 * minute, 5 * minute],
  mail: [30 * second, 5 * minute, 15 * minute, hour, 2 * hour, 4 * hour],
};

type FailureCause = "unreachable" | "login" | "rate" | "set-up";

/** Pause of a sender or a channel by number of consecutive failures. Each pause ends with one attempt, so a short one
 *  costs one connection. A rejected login is retried less often, because mail providers lock accounts for it. */
const pauseSchedules: Readonly<Record<Pace, Readonly<Record<FailureCause, readonly number[]>>>> = {
  phone: {
    unreachable: [second, 2 * second, 4 * second, 8 * second, 15 * second],
    login: [5 * second, 10 * second, 20 * second, 30 * second],
    rate: [second, 2 * second, 4 * second, 8 * second, 15 * second, 30 * second],
    "set-up": [30 * second, minute, 2 * minute, 5 * minute],
  },
  mail: {
    unreachable: [5 * second, 10 * second, 20 * second, 30 * second],
    login: [minute, 2 * minute, 5 * minute],
    rate: [15 * minute],
    "set-up": [5 * minute, 15 * minute],
  },
};
const askSchedule = [second, 5 * second, 15 * second, minute, 5 * minute];
const routeSchedule = [second, 2 * second, 4 * second, 8 * second, 16 * second];
const lookSchedule = [500, 2 * second, 5 * second, 15 * second, minute];
const fetchSchedule = [2 * second, 15 * second, minute, 5 * minute, 15 * minute, hour, 4 * hour];

const at = (schedule: readonly number[], index: number): number =>
  schedule[Math.min(Math.max(index, 0), schedule.length - 1)] ?? minute;

/** Returns the delay of a deferred draft after its `attempts`-th attempt. */
export const sendDelay = (pace: Pace, attempts: number): number => at(sendSchedules[pace], attempts - 1);
/** Returns the pause of a sender or a channel after the `failures`-th consecutive failure. */
export const pauseDelay = (pace: Pace, cause: FailureCause, failures: number): number =>
  at(pauseSchedules[pace][cause], failures - 1);
/** Returns the delay of a deferred question after its `attempts`-th attempt. */
export const askDelay = (attempts: number): number => at(askSchedule, attempts - 1);
/** Maximum delay of a question after a 429 without Retry-After: the window of the rate limit (External API 8). */
export const rateWindow = minute;
/** Returns the delay of an event that could not be routed, after `failures` earlier failures. */
export const routeDelay = (failures: number): number => at(routeSchedule, failures);
/** Returns the delay until the next lookup of an attempt of unknown outcome. */
export const lookDelay = (looks: number): number => at(lookSchedule, looks);
/** Returns the delay of an attachment after its `attempts`-th failed fetch. */
export const fetchDelay = (attempts: number): number => at(fetchSchedule, attempts - 1);

/** Maximum number of fetches of an attachment; they span most of a day. */
export const fetchLimit = 10;
/** A draft that is only ever deferred fails after this time. */
export const sendLifetime = 3 * 24 * hour;
/** A question that the platform only ever deferred fails after this time. */
export const askLifetime = 3 * 24 * hour;
/** Maximum number of attempts of a question that leaves no trace on the platform (openings count). */
export const attemptLimit = 8;
/** Timeout for the platform's answer to a question that it certainly has. */
export const answerLifetime = 30 * minute;
/** Number of hard bounces that suppress an address. */
export const strikeLimit = 2;
/** Number of automatic replies of other agents in a thread after which no reply is sent. */
export const hopLimit = 2;
