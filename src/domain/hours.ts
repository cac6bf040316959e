// On-duty hours of a responder in their local time zone. On the day of the change to daylight saving time
// the skipped hour does not exist. On the day of the change back the repeated hour counts both times.

const minuteMs = 60_000;
export const dayMs = 86_400_000;
const minutesOfDay = 1440;
/** The search for the next on-duty time ends after this many milliseconds. */
const horizonMs = 400 * dayMs;

/** A weekly time window, or a range of whole days. */
export type Window =
  | {
      readonly kind: "weekly";
      /** The weekdays on which the window begins; Monday is 0. */
      readonly days: readonly number[];
      /** Minutes of the day, 0..1439. */
      readonly from: number;
      /** Minutes of the day, 0..1440, exclusive. If it is not after `from`, the window ends on the next day. */
      readonly to: number;
    }
  | {
      readonly kind: "dates";
      /** Days since 1970-01-01; `last` is inclusive. */
      readonly first: number;
      readonly last: number;
    };

export interface Rota {
  /** IANA time zone name. */
  readonly timeZone: string;
  /** Empty: always on duty. */
  readonly hours: readonly Window[];
  /** Takes precedence over `hours`. */
  readonly away: readonly Window[];
}

export type Duty =
  | { readonly on: true }
  | {
      readonly on: false;
      readonly why: "hours" | "away";
      /** Epoch ms of the first minute on duty again; null: not within the search range (400 days). */
      readonly until: number | null;
    };

const dayNames = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/** Parses `mon-fri 08:00-18:00`, `sat,sun 10:00-12:00`, `22:00-06:00` (every day), `2026-12-24`,
 *  `2026-12-24..2026-12-26`. Returns null for other text. */
export function readWindow(text: string): Window | null {
  const dates = /^(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?$/.exec(text);
  if (dates) return readDates(dates[1] ?? "", dates[2] ?? dates[1] ?? "");
  const weekly = /^(?:([a-z,-]+) +)?(\d\d:\d\d)-(\d\d:\d\d)$/.exec(text.toLowerCase());
  if (!weekly) return null;
  const days = readDays(weekly[1] ?? "mon-sun");
  const [from, to] = [readMinute(weekly[2] ?? ""), readMinute(weekly[3] ?? "")];
  if (days === null || from === null || to === null || from === minutesOfDay || from === to) return null;
  return { kind: "weekly", days, from, to };
}

function readDates(from: string, to: string): Window | null {
  const [first, last] = [readDay(from), readDay(to)];
  return first === null || last === null || last < first ? null : { kind: "dates", first, last };
}

/** Returns null for a day that does not exist, such as 2026-02-30. */
function readDay(text: string): number | null {
  const ms = Date.parse(`${text}T00:00:00Z`);
  return Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== text ? null : ms / dayMs;
}

function readDays(text: string): readonly number[] | null {
  const days = text.split(",").flatMap((part) => {
    const ends = part.split("-").map((name) => dayNames.indexOf(name));
    const [first = -1, last = first] = ends;
    if (ends.length > 2 || ends.includes(-1)) return [-1];
    // The range may cross the end of the week, as in fri-mon.
    return Array.from({ length: ((last - first + 7) % 7) + 1 }, (_, index) => (first + index) % 7);
  });
  return days.includes(-1) ? null : [...new Set(days)].sort((a, b) => a - b);
}

function readMinute(text: string): number | null {
  const [hours = 0, minutes = 0] = text.split(":").map(Number);
  const total = hours * 60 + minutes;
  return minutes > 59 || total > minutesOfDay ? null : total;
}

/** Returns true when this machine knows the time zone `name`. Offsets are rejected, because they have no
 *  daylight saving time. */
export function isTimeZone(name: string): boolean {
  if (/^[+-]/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** Local date and time. */
interface Local {
  /** Days since 1970-01-01. */
  readonly day: number;
  readonly minute: number;
}

const clocks = new Map<string, Intl.DateTimeFormat>();

/** Returns the zone's offset from UTC in ms; positive east of UTC. */
function offsetOf(timeZone: string, at: number): number {
  let clock = clocks.get(timeZone);
  if (!clock) {
    clock = new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    clocks.set(timeZone, clock);
  }
  const shown = Object.fromEntries(clock.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = shown;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(at / 1000) * 1000;
}

function shownAt(at: number, offset: number): Local {
  const local = at + offset;
  const day = Math.floor(local / dayMs);
  return { day, minute: Math.floor((local - day * dayMs) / minuteMs) };
}

function within(window: Window, { day, minute }: Local): boolean {
  if (window.kind === "dates") return day >= window.first && day <= window.last;
  const { days, from, to } = window;
  const begins = days.includes(weekday(day)) && minute >= from;
  if (from < to) return begins && minute < to;
  return begins || (days.includes(weekday(day - 1)) && minute < to);
}

/** 1970-01-01 was a Thursday. */
const weekday = (day: number): number => (((day + 3) % 7) + 7) % 7;

function off(rota: Rota, local: Local): "hours" | "away" | null {
  if (rota.away.some((window) => within(window, local))) return "away";
  return rota.hours.length === 0 || rota.hours.some((window) => within(window, local)) ? null : "hours";
}

/** Returns true when the responder may be notified at `at` (epoch ms). */
export function onDuty(rota: Rota, at: number): boolean {
  if (rota.hours.length === 0 && rota.away.length === 0) return true;
  return off(rota, shownAt(at, offsetOf(rota.timeZone, at))) === null;
}

/** Like `onDuty`, with the reason and its end. It is slower and meant for display. */
export function dutyAt(rota: Rota, at: number): Duty {
  const why = off(rota, shownAt(at, offsetOf(rota.timeZone, at)));
  return why === null ? { on: true } : { on: false, why, until: nextOnDuty(rota, at) };
}

function nextOnDuty(rota: Rota, at: number): number | null {
  const { timeZone } = rota;
  const first = (Math.floor(at / minuteMs) + 1) * minuteMs;
  for (let day = first; day < at + horizonMs; day += dayMs) {
    // Computes the offset for each minute only on the days it changes.
    const offset = offsetOf(timeZone, day);
    const steady = offset === offsetOf(timeZone, day + dayMs);
    for (let minute = day; minute < day + dayMs; minute += minuteMs) {
      const local = shownAt(minute, steady ? offset : offsetOf(timeZone, minute));
      if (off(rota, local) === null) return minute;
    }
  }
  return null;
}
