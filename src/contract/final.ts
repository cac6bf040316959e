// Permanent failures, marked by a property of the error. A class would not work, because every copy of this
// package has its own class.

/** A permanent error. When `Adapter.open` throws it, the core records the failure and does not retry. */
export interface FinalError extends Error {
  readonly final: true;
}

export function finalError(message: string, options?: ErrorOptions): FinalError {
  return Object.assign(new Error(message, options), { final: true as const });
}

export function isFinal(error: unknown): error is FinalError {
  return error instanceof Error && "final" in error && error.final === true;
}
