// When people are on duty: against a look at the wall's clock in every single minute.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dutyAt, isTimeZone, onDuty, readWindow, type Window } from "../../src/domain/hours.ts";

const minute = 60_000;
const day = 86_400_000;
const names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const windows = (...texts: string[]): Window[] =>
  texts.map((text) => readWindow(text) ?? expect.fail(`no window: ${text}`));
const rota = (timeZone: string, hours: readonly string[], away: readonly string[] = []) => ({
  timeZone,
  hours: windows(...hours),
  away: windows(...away),
});
const at = (text: string): number => Date.parse(text);

describe("a window", () => {
  it.each<[string, unknown]>([
    ["mon-fri 08:00-18:00", { kind: "weekly", days: [0, 1, 2, 3, 4], from: 480, to: 1080 }],
    ["Sat,Sun 10:00-24:00", { kind: "weekly", days: [5, 6], from: 600, to: 1440 }],
    ["22:00-06:00", { kind: "weekly", days: [0, 1, 2, 3, 4, 5, 6], from: 1320, to: 360 }],
    ["fri-mon 00:00-00:30", { kind: "weekly", days: [0, 4, 5, 6], from: 0, to: 30 }],
    ["mon,wed-thu,mon 09:00-10:00", { kind: "weekly", days: [0, 2, 3], from: 540, to: 600 }],
    ["1970-01-02", { kind: "dates", first: 1, last: 1 }],
    ["1970-01-31..1970-02-01", { kind: "dates", first: 30, last: 31 }],
  ])("%s is read", (text, expected) => {
    expect(readWindow(text)).toEqual(expected);
  });

  it.each([
    "",
    "always",
    "mon-fri",
    "8:00-18:00",
    "08:00",
    "08:00-08:00",
    "24:00-06:00",
    "08:00-24:01",
    "08:60-09:00",
    "montag 08:00-18:00",
    "mon-fri-sun 08:00-18:00",
    "mon, 08:00-18:00",
    "mon-fri 08:00-18:00 ",
    "2026-02-30",
    "2026-2-3",
    "2026-12-26..2026-12-24",
    "2026-12-24..",
    "2026-02-30..2026-03-02",
    "2026-02-28..2026-02-30",
  ])("%j is invalid", (text) => {
    expect(readWindow(text)).toBeNull();
  });
});

describe("a time zone", () => {
  it("has a name of the IANA", () => {
    expect(["Europe/Berlin", "UTC", "Mars/Olympus", "+01:00", ""].map(isTimeZone)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });
});

describe("duty", () => {
  it("is always on without configured hours", () => {
    expect(onDuty(rota("Europe/Berlin", []), 0)).toBe(true);
    expect(dutyAt(rota("Europe/Berlin", []), 0)).toEqual({ on: true });
  });

  it("goes over midnight into a day of its own, and being away wins", () => {
    const night = rota("Europe/Berlin", ["fri 22:00-06:00"], ["2026-07-11"]);
    const duties = ["2026-07-10T21:59", "2026-07-10T22:00", "2026-07-10T23:59", "2026-07-11T00:00"].map((text) =>
      onDuty(night, at(`${text}+02:00`)),
    );
    expect(duties).toEqual([false, true, true, false]);
    expect(dutyAt(night, at("2026-07-11T00:00+02:00"))).toEqual({
      on: false,
      why: "away",
      until: at("2026-07-17T22:00+02:00"),
    });
  });

  it("ends on the minute, and is reported to the millisecond", () => {
    const office = rota("Europe/Berlin", ["mon-fri 08:00-18:00"]);
    expect(onDuty(office, at("2026-07-10T17:59:59.999+02:00"))).toBe(true);
    expect(dutyAt(office, at("2026-07-10T18:00:00.000+02:00"))).toEqual({
      on: false,
      why: "hours",
      until: at("2026-07-13T08:00+02:00"),
    });
  });

  it("begins with the hour that follows a skipped one", () => {
    const early = rota("Europe/Berlin", ["02:30-03:30"]);
    expect(dutyAt(early, at("2026-03-29T01:59+01:00"))).toMatchObject({
      until: at("2026-03-29T03:00+02:00"),
    });
    expect(onDuty(early, at("2026-03-29T03:29+02:00"))).toBe(true);
    const skipped = rota("Europe/Berlin", ["02:00-03:00"]);
    expect(dutyAt(skipped, at("2026-03-28T03:00+01:00"))).toMatchObject({
      until: at("2026-03-30T02:00+02:00"),
    });
  });

  it("comes twice in a repeated hour", () => {
    const twice = rota("Europe/Berlin", ["02:00-02:30"]);
    const duties = ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"].map((text) =>
      onDuty(twice, at(`2026-10-25T${text}`)),
    );
    expect(duties).toEqual([true, false, true, false]);
    expect(dutyAt(twice, at("2026-10-25T02:30+02:00"))).toMatchObject({
      until: at("2026-10-25T02:00+01:00"),
    });
  });

  it("may not come within a year", () => {
    expect(dutyAt(rota("UTC", ["2024-02-29"]), at("2024-03-01T00:00Z"))).toEqual({
      on: false,
      why: "hours",
      until: null,
    });
    const leap = rota("Asia/Tokyo", [], ["2026-01-01..2026-12-31"]);
    expect(dutyAt(leap, at("2026-01-05T00:00Z"))).toMatchObject({ until: at("2027-01-01T00:00+09:00") });
  });
});

/** A window as it is written, and what it says of a wall's clock, found in the simplest way. */
interface Written {
  readonly text: string;
  readonly holds: (date: string, dayOfWeek: number, time: string) => boolean;
}

const two = (n: number): string => String(n).padStart(2, "0");
const clock = fc.integer({ min: 0, max: 1439 }).map((n) => `${two(Math.floor(n / 60))}:${two(n % 60)}`);
const weekly: fc.Arbitrary<Written> = fc
  .record({ days: fc.subarray(names, { minLength: 1 }), from: clock, to: clock })
  .filter(({ from, to }) => from !== to)
  .map(({ days, from, to }) => ({
    text: `${days.join(",")} ${from}-${to}`,
    holds: (_date, today, time) => {
      const begins = (which: number) => days.includes(names[(which + 7) % 7] ?? "");
      if (from < to) return begins(today) && time >= from && time < to;
      return (begins(today) && time >= from) || (begins(today - 1) && time < to);
    },
  }));

// The clock is put forward or back near all of these: by one hour, half an hour, two hours, at midnight, and by a whole
// day in Apia, which left out 2011-12-30.
const changes: readonly (readonly [string, string])[] = [
  ["Europe/Berlin", "2026-03-29"],
  ["Europe/Berlin", "2026-10-25"],
  ["America/New_York", "2026-03-08"],
  ["America/New_York", "2026-11-01"],
  ["Australia/Lord_Howe", "2026-04-05"],
  ["Australia/Lord_Howe", "2026-10-04"],
  ["America/Santiago", "2026-04-05"],
  ["America/Santiago", "2026-09-06"],
  ["Antarctica/Troll", "2026-03-29"],
  ["Antarctica/Troll", "2026-10-25"],
  ["Pacific/Apia", "2011-12-30"],
  ["Asia/Kathmandu", "2026-06-01"],
  ["America/St_Johns", "2026-03-08"],
];
const dates = (middle: string): fc.Arbitrary<Written> =>
  fc.tuple(fc.integer({ min: -2, max: 2 }), fc.integer({ min: 0, max: 2 })).map(([first, length]) => {
    const [from = "", to = ""] = [first, first + length].map((n) =>
      new Date(at(`${middle}T00:00Z`) + n * day).toISOString().slice(0, 10),
    );
    return { text: from === to ? from : `${from}..${to}`, holds: (date) => date >= from && date <= to };
  });
const week = fc.constantFrom(...changes).chain(([timeZone, middle]) => {
  const some = (maxLength: number) => fc.array(fc.oneof(weekly, dates(middle)), { maxLength });
  return fc.record({
    timeZone: fc.constant(timeZone),
    middle: fc.constant(middle),
    hours: some(3),
    away: some(2),
  });
});

interface Wall {
  readonly date: string;
  readonly today: number;
  readonly time: string;
}
/** What the clock shows in every minute of the day before `middle` and of that day (UTC). */
const walls = new Map(
  changes.map(([timeZone, middle]): [string, readonly Wall[]] => {
    const wall = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" });
    const shown = Array.from({ length: (2 * day) / minute }, (_, index) => {
      const [date = "", time = ""] = wall.format(at(`${middle}T00:00Z`) - day + index * minute).split(" ");
      return { date, time, today: (new Date(`${date}T00:00Z`).getUTCDay() + 6) % 7 };
    });
    return [`${timeZone} ${middle}`, shown];
  }),
);

describe("every minute of two days around a change of the clock", () => {
  it("is on or off duty by the wall clock, and duty begins again at the reported time", () => {
    fc.assert(
      fc.property(week, ({ timeZone, middle, hours, away }) => {
        const own = rota(
          timeZone,
          hours.map(({ text }) => text),
          away.map(({ text }) => text),
        );
        const start = at(`${middle}T00:00Z`) - day;
        const brute = (walls.get(`${timeZone} ${middle}`) ?? []).map(({ date, today, time }) => {
          const holds = (window: Written) => window.holds(date, today, time);
          return !away.some(holds) && (hours.length === 0 || hours.some(holds));
        });
        expect(brute).toHaveLength(2880);
        const wrong = brute.findIndex((on, index) => on !== onDuty(own, start + index * minute));
        expect(wrong).toBe(-1);
        const ends = brute.flatMap((on, index) => (!on && brute[index - 1] !== false ? [index] : []));
        for (const index of ends) {
          const again = brute.indexOf(true, index);
          if (again > 0) expect(dutyAt(own, start + index * minute)).toMatchObject({ until: start + again * minute });
        }
      }),
      { numRuns: 30 },
    );
  });
});
