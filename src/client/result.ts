// The result of every operation of the client: a value that states what is certain. No exception has to be
// interpreted.

/** The outcome of one call. It can be serialized as JSON if its value can. */
export type CallResult<T> =
  | { readonly kind: "ok"; readonly value: T }
  /** 401 or 403: the key was rejected. The operation was certainly not performed. */
  | { readonly kind: "unauthorized"; readonly reason: string }
  /** 404 in the interface's own format, for an object that the request names. The operation was
   *  certainly not performed. */
  | { readonly kind: "missing"; readonly reason: string }
  /** Another 4xx (400, 409, 413, 422 ...): a permanent rejection. `details`: the rejected fields, if the
   *  platform names them. Unlike `reason`, they may quote the request. */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly reason: string;
      readonly details?: readonly { readonly path: string; readonly message: string }[];
    }
  /** The operation was certainly not performed, and a retry may succeed: no connection, or 429
   *  (`limited`; with `retryAfterMs` above 0 if the platform sends it). Also a response that the
   *  platform did not generate itself: a redirect, 405, 408, 425, any other 404. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly retryAfterMs?: number;
      readonly limited?: true;
    }
  /** The operation may have been performed: a timeout, a reset after the request was sent, 5xx, or an
   *  unreadable success. `tooLarge`: the response exceeds the client's size limit; a smaller page may
   *  not. */
  | { readonly kind: "unknown"; readonly reason: string; readonly tooLarge?: true };

/** The reason of a call whose caller aborted its signal. */
export const stopped = "stopped by the caller";

/** Maps the value of an `ok` result; returns any other result unchanged. */
export function mapped<T, U>(result: CallResult<T>, part: (value: T) => U): CallResult<U> {
  return result.kind === "ok" ? { kind: "ok", value: part(result.value) } : result;
}

/** A result that is not `ok`, as an error. Thrown to callers that iterate over items. */
export class CallFailure extends Error {
  override readonly name = "CallFailure";
  readonly result: Exclude<CallResult<never>, { kind: "ok" }>;

  constructor(result: Exclude<CallResult<never>, { kind: "ok" }>) {
    super(result.reason);
    this.result = result;
  }
}
