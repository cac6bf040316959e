// Validates the custom headers of a webhook.

import { validateHeaderName, validateHeaderValue } from "node:http";

/** Headers that this server or HTTP itself controls. */
const reserved =
  /^(webhook-(id|timestamp|signature)|content-(length|type)|host|connection|keep-alive|transfer-encoding|te|trailer|expect|upgrade|user-agent)$/i;

/** Returns the reason why a header is invalid, or null. */
export function headerProblem(name: string, value: unknown): string | null {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, String(value));
  } catch {
    return "not a header";
  }
  return reserved.test(name) ? "is not yours to set" : null;
}
