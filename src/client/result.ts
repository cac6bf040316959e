// What every operation of the client gives: a value that says what is certain, never an exception to interpret.

/** What became of one call. It survives JSON wherever its value does. */
export type CallResult<T> =
  | { readonly kind: "ok"; readonly value: T }
  /** 401 or 403: the key is refused. Certain: not done. */
  | { readonly kind: "unauthorized"; readonly reason: string }
  /** 404 in the interface's own form, about something the request names. Certain: not done. */
  | { readonly kind: "missing"; readonly reason: string }
  /** Another 4xx (400, 409, 413, 422 ...). Certain: no, and never. `details`: which fields were why, where the platform
   *  says so; unlike `reason` they may repeat what was sent. */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly reason: string;
      readonly details?: readonly { readonly path: string; readonly message: string }[];
    }
  /** Certain: not done, worth another try: no connection, 429 (`limited`; `retryAfterMs` above 0 where it says so), or
   *  not the platform's own word: a redirect, 405, 408, 425, any other 404. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly retryAfterMs?: number;
      readonly limited?: true;
    }
  /** May have been done: time-out, reset after the request left, 5xx, a success that cannot be read. `tooLarge`: because the
   *  response exceeds the client's limit; a smaller page may not. */
  | { readonly kind: "unknown"; readonly reason: string; readonly tooLarge?: true };

/** The reason of a call whose signal its caller has aborted. */
export const stopped = "stopped by the caller";

/** The result with another value; what is not `ok` stays as it is. */
export function mapped<T, U>(result: CallResult<T>, part: (value: T) => U): CallResult<U> {
  return result.kind === "ok" ? { kind: "ok", value: part(result.value) } : result;
}

/** A result that is not `ok`, as an error: for those who iterate over items and want no results in between. */
export class CallFailure extends Error {
  override readonly name = "CallFailure";
  readonly result: Exclude<CallResult<never>, { kind: "ok" }>;

  constructor(result: Exclude<CallResult<never>, { kind: "ok" }>) {
    super(result.reason);
    this.result = result;
  }
}
