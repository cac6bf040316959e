// When to try again. Pure: jitter is added where the clock is.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/** E-mail's customary schedule (RFC 5321 4.5.4.1 asks for at least 30 minutes after the first tries and 4-5 days). */
const sendSchedule = [30 * second, 5 * minute, 15 * minute, hour, 2 * hour, 4 * hour];
const askSchedule = [second, 5 * second, 15 * second, minute, 5 * minute];
const lookSchedule = [500, 2 * second, 5 * second, 15 * second, minute];
const fetchSchedule = [2 * second, 15 * second, minute, 5 * minute, 15 * minute, hour, 4 * hour];

const at = (schedule: readonly number[], index: number): number =>
  schedule[Math.min(Math.max(index, 0), schedule.length - 1)] ?? minute;

/** How long a deferred draft waits after its `attempts`-th attempt. */
export const sendDelay = (attempts: number): number => at(sendSchedule, attempts - 1);
/** How long a deferred question waits after its `attempts`-th attempt. */
export const askDelay = (attempts: number): number => at(askSchedule, attempts - 1);
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
