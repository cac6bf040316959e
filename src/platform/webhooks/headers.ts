// Which headers of its own a webhook may have.

import { validateHeaderName, validateHeaderValue } from "node:http";

/** Names of ours, and what HTTP itself decides. */
const reserved =
  /^(webhook-(id|timestamp|signature)|content-(length|type)|host|connection|keep-alive|transfer-encoding|te|trailer|expect|upgrade|user-agent)$/i;

/** Why this cannot be sent as a header; null when it can. */
export function headerProblem(name: string, value: unknown): string | null {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, String(value));
  } catch {
    return "not a header";
  }
  return reserved.test(name) ? "is not yours to set" : null;
}
