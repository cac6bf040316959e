// A database server that is not there now, told from one that is there and says no.

const codes: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "EHOSTDOWN",
  "ENETUNREACH",
  "ENETDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ETIMEDOUT",
  "EPIPE",
  "57P01", // is shutting down
  "57P02", // has crashed
  "57P03", // is starting up
  "53300", // has no free connection
]);

/** True when the same attempt may well work later: no answer, or none but "not now" (SQLSTATE classes 08, 53, 57). */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code = "" } = error as { code?: string };
  // pg's own words for a connection that took too long, or ended before it was one.
  return (
    codes.has(code) || code.startsWith("08") || /^(timeout expired|Connection terminated)/.test(error.message)
  );
}
