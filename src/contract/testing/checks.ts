// Every rule of the contract that can be asserted from outside, by name.

import { composeChecks } from "./checks-compose.ts";
import { eventChecks } from "./checks-events.ts";
import { fileChecks } from "./checks-files.ts";
import { inboundChecks } from "./checks-inbound.ts";
import { lookingChecks } from "./checks-looking.ts";
import { makingChecks } from "./checks-making.ts";
import { routeChecks } from "./checks-routes.ts";
import { sendChecks } from "./checks-send.ts";
import { sessionChecks } from "./checks-sessions.ts";
import type { Harness } from "./harness.ts";
import type { Check } from "./rig.ts";

/** The conformance suite as plain functions; `describeAdapter` turns them into tests. */
export const checks: readonly Check[] = [
  ...makingChecks,
  ...inboundChecks,
  ...composeChecks,
  ...sendChecks,
  ...fileChecks,
  ...lookingChecks,
  ...routeChecks,
  ...sessionChecks,
  ...eventChecks,
];

/** Returns the reason why this check does not apply to the harness's adapter (`<ability>: <reason>`), or
 *  null when it applies. */
export function exemption(check: Check, harness: Harness): string | null {
  const missing = check.needs.find((ability) => harness.lacks?.[ability] !== undefined);
  return missing === undefined ? null : `${missing}: ${harness.lacks?.[missing]}`;
}
