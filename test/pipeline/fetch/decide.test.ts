// The decisions about downloads of attachments, on rows: no database, no clock.

import { finalError, isFinal } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { fetchLimit } from "../../../src/domain/retry.ts";
import { afterFailure, beforeFetch, sizeError } from "../../../src/pipeline/fetch/decide.ts";

it("ends an attachment whose attempts were all interrupted", () => {
  expect(beforeFetch({ attempts: fetchLimit })).toBeNull();
  expect(beforeFetch({ attempts: fetchLimit + 1 })).toBe("given up: every attempt was interrupted");
});

it.each([
  [null, null],
  [1000, null],
  [1001, "it is larger than 1000 bytes"],
])("%s bytes, with a limit of 1000: %s", (size, message) => {
  const error = sizeError(size, 1000);
  expect(error?.message ?? null).toBe(message);
  if (error !== null) expect(isFinal(error)).toBe(true);
});

describe("after a failed download", () => {
  const backoff = { timing: { retry: [10, 20] }, jitter: (ms: number) => ms + 1 };
  const after = (attempts: number, error: unknown) => afterFailure({ attempts }, error, false, backoff);

  it("retries with growing backoff and the jitter of the caller", () => {
    const delays = [1, 2, 3].map((attempts) => after(attempts, new Error("cut")));
    expect(delays).toEqual([11, 21, 21].map((delayMs) => ({ kind: "retry", reason: "cut", delayMs })));
  });

  it("ends after the last attempt, and after a final error", () => {
    expect(after(fetchLimit - 1, new Error("cut"))).toMatchObject({ kind: "retry" });
    expect(after(fetchLimit, new Error("cut"))).toEqual({ kind: "end", reason: "cut" });
    expect(after(1, finalError("deleted"))).toEqual({ kind: "end", reason: "deleted" });
  });

  it("retries at once when the process ends, also after the last attempt", () => {
    const failure = afterFailure({ attempts: fetchLimit }, finalError("cut"), true, backoff);
    expect(failure).toEqual({ kind: "interrupted", reason: "interrupted", delayMs: 0 });
  });

  it("records a bounded reason, also of what is not an Error", () => {
    expect(after(1, "x".repeat(1000))).toMatchObject({ reason: "x".repeat(300) });
  });
});
