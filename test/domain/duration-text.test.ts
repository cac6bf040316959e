// Durations in the reasons that people read.

import { expect, it } from "vitest";
import { limitText } from "../../src/domain/duration-text.ts";

const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];

it.each([
  [0, "0 ms"],
  [350, "350 ms"],
  [20 * second, "20 s"],
  [1.5 * minute, "1 min 30 s"],
  [90 * minute, "1 h 30 min"],
  [day, "1 d"],
  [25 * hour, "1 d 1 h"],
  [3 * day + 59 * minute, "3 d"],
])("%i ms is %s", (ms, text) => {
  expect(limitText(ms)).toBe(text);
});
