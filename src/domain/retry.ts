// Backoff schedules, lifetimes and limits. Pure: jitter is added where the clock is.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/** How fast a kind of channel backs off. A person who texts or calls waits for seconds, a mail server for minutes. */
export type Pace = "phone" | "mail";

/** By `Traits.platform`. */
export const paceOf = (platform: string | null): Pace =>
  platform === "sms" || platform === "voice" ? "phone" : "mail";

/** For mail the customary schedule (RFC 5321 4.5.4.1 asks for at least 30 minutes after the first tries and 4-5 days). */
const sendSchedules: Readonly<Record<Pace, readonly number[]>> = {
  phone: [2 * second, 5 * second, 15 * second, 30 * second, minute, 2 * minute, 5 * minute],
  mail: [30 * second, 5 * minute, 15 * minute, hour, 2 * hour, 4 * hour],
};

type Cause = "unreachable" | "login" | "rate" | "set-up";

/** How long a sender or a channel is paused after so many failures in a row. Each pause ends with one attempt, so a short
 *  one costs one connection; a rejected login is tried less often, because mail providers lock accounts for it. */
const pauseSchedules: Readonly<Record<Pace, Readonly<Record<Cause, readonly number[]>>>> = {
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
const lookSchedule = [500, 2 * second, 5 * second, 15 * second, minute];
const fetchSchedule = [2 * second, 15 * second, minute, 5 * minute, 15 * minute, hour, 4 * hour];

const at = (schedule: readonly number[], index: number): number =>
  schedule[Math.min(Math.max(index, 0), schedule.length - 1)] ?? minute;

/** How long a deferred draft waits after its `attempts`-th attempt. */
export const sendDelay = (pace: Pace, attempts: number): number => at(sendSchedules[pace], attempts - 1);
/** How long a sender or a channel is paused after the `failures`-th failure in a row. */
export const pauseDelay = (pace: Pace, cause: Cause, failures: number): number =>
  at(pauseSchedules[pace][cause], failures - 1);
/** How long a deferred question waits after its `attempts`-th attempt. */
export const askDelay = (attempts: number): number => at(askSchedule, attempts - 1);
/** How long a question waits at most after a 429 without Retry-After: the window of the rate (External API 8). */
export const rateWindow = minute;
/** How long until the next look at an attempt of unknown outcome. */
export const lookDelay = (looks: number): number => at(lookSchedule, looks);
/** How long an attachment whose `attempts`-th fetch failed waits for the next one. */
export const fetchDelay = (attempts: number): number => at(fetchSchedule, attempts - 1);

/** An attachment is fetched at most this often: for the better part of a day. */
export const fetchLimit = 10;
/** After this a draft that is only ever deferred has failed. */
export const sendLifetime = 3 * 24 * hour;
/** After this a question that the platform only ever deferred has failed. */
export const askLifetime = 3 * 24 * hour;
/** A question that leaves no trace on the platform is put at most this often (openings count). */
export const attemptLimit = 8;
/** How long the platform may take to answer a question that it certainly has. */
export const answerLifetime = 30 * minute;
/** Hard bounces after which an address gets nothing more. */
export const strikeLimit = 2;
/** How many automatic answers of other agents a thread may see before we fall silent. */
export const hopLimit = 2;
