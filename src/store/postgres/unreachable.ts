// Distinguishes an unreachable database server from one that responds with an error.

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
  "25006", // the server accepts no writes: a standby that is not promoted yet
  "57P01", // the server is shutting down
  "57P02", // the server has crashed
  "57P03", // the server is starting up
  "53300", // the server has no free connection
]);

/** Error messages of pg, which have no code: a connection attempt that timed out or was closed early, a server that does not
 *  respond, and a connection that has failed. */
const withoutCode =
  /^(timeout expired|Connection terminated|Query read timeout|Client has encountered a connection error)/;

/** Returns true when a retry may succeed later: no response, or a response that reports temporary
 *  unavailability (SQLSTATE classes 08, 25, 53, 57). */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code = "" } = error as { code?: string };
  return codes.has(code) || code.startsWith("08") || withoutCode.test(error.message);
}
