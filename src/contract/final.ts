// Failures that no later try could mend, marked on the error itself: a class would be another one in every copy of this
// package.

/** An error that ends the matter: thrown by `Adapter.open`, it is noted and nothing is fetched again. */
export interface FinalError extends Error {
  readonly final: true;
}

export function finalError(message: string, options?: ErrorOptions): FinalError {
  return Object.assign(new Error(message, options), { final: true as const });
}

export function isFinal(error: unknown): error is FinalError {
  return error instanceof Error && "final" in error && error.final === true;
}
