// Durations as text for people, in a terminal and on a page. Amounts are rounded down.

/** Formats a duration in milliseconds with its largest unit: `350 ms`, `1.2 s`, `59 s`, `5 min`, `3 h`, `12 d`. */
export function durationText(ms: number): string {
  const [seconds, minutes, hours, days] = [ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000];
  if (days >= 1) return `${Math.floor(days)} d`;
  if (hours >= 1) return `${Math.floor(hours)} h`;
  if (minutes >= 1) return `${Math.floor(minutes)} min`;
  if (seconds >= 10) return `${Math.floor(seconds)} s`;
  return seconds >= 1 ? `${(Math.floor(seconds * 10) / 10).toFixed(1)} s` : `${Math.floor(ms)} ms`;
}

/** The same, but `< 1 min` for everything shorter: a page that shows it does not change every second. */
export const minutesText = (ms: number): string => (ms / 60_000 < 1 ? "< 1 min" : durationText(ms));

/** Returns a number with its noun: `1 message`, `2 messages`. */
export const counted = (count: number, one: string, several = `${one}s`): string =>
  `${count} ${count === 1 ? one : several}`;
