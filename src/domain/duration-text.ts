// Durations as text for people: in a reason, in a terminal and on a page. Amounts are rounded down.

import { day, hour, minute, second } from "bridgehead/contract";

/** Formats a duration in milliseconds with its largest unit: `350 ms`, `1.2 s`, `59 s`, `5 min`, `3 h`, `12 d`. */
export function durationText(ms: number): string {
  const [seconds, minutes, hours, days] = [ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000];
  if (days >= 1) return `${Math.floor(days)} d`;
  if (hours >= 1) return `${Math.floor(hours)} h`;
  if (minutes >= 1) return `${Math.floor(minutes)} min`;
  if (seconds >= 10) return `${Math.floor(seconds)} s`;
  return seconds >= 1 ? `${(Math.floor(seconds * 10) / 10).toFixed(1)} s` : `${Math.floor(ms)} ms`;
}

const units = [
  ["d", day],
  ["h", hour],
  ["min", minute],
  ["s", second],
  ["ms", 1],
] as const;

/** Formats a duration in milliseconds with its largest unit and the next one: `1 h 30 min`, `20 s`, `3 d 2 h`. For a limit, and
 *  for an amount that is compared with one: a cap of 90 minutes is not one of an hour. */
export function limitText(ms: number): string {
  const largest = units.findIndex(([, size]) => ms >= size);
  let left = ms;
  const parts = units.slice(largest, largest + 2).flatMap(([unit, size]) => {
    const amount = Math.floor(left / size);
    left -= amount * size;
    return amount === 0 ? [] : [`${amount} ${unit}`];
  });
  return parts.join(" ") || "0 ms";
}

/** `durationText`, but `< 1 min` for everything shorter: a page that shows it does not change every second. */
export const minutesText = (ms: number): string => (ms / 60_000 < 1 ? "< 1 min" : durationText(ms));

/** Returns a number with its noun: `1 message`, `2 messages`. */
export const counted = (count: number, one: string, several = `${one}s`): string =>
  `${count} ${count === 1 ? one : several}`;
