// Dates and times of query strings (External API 4.2: `date-time`).

import { expect, test } from "vitest";
import { instant } from "../../src/wire/record.ts";

const noon = Date.UTC(2026, 10, 2, 12);

test.each([
  "2026-11-02T12:00:00Z",
  "2026-11-02T12:00:00.000Z",
  "2026-11-02T14:00:00+02:00",
  "2026-11-02T07:00:00.000-05:00",
  // Without a zone, a time is UTC, in any time zone of the server.
  "2026-11-02T12:00:00",
  "2026-11-02T12:00",
  // A plus sign without percent-encoding.
  "2026-11-02T14:00:00 02:00",
])("%s is noon", (text) => expect(instant.parse(text)).toBe(noon));

test("a date alone is its first instant", () => expect(instant.parse("2026-11-02")).toBe(Date.UTC(2026, 10, 2)));

test.each(["5", "2026", "yesterday", "1 Jan 2026", "", "2026-13-01T00:00:00Z", "2026-11-02T25:00:00Z", "-1"])(
  "%j is none",
  (text) => expect(instant.safeParse(text).success).toBe(false),
);
