// Every rule of the contract that can be asserted from outside, by name.

import type { Check } from "../fixture.ts";
import type { Harness } from "../harness.ts";
import { composeChecks } from "./compose.ts";
import { createChecks } from "./create.ts";
import { definitionChecks } from "./definition.ts";
import { endChecks } from "./ends.ts";
import { eventChecks } from "./events.ts";
import { fileChecks } from "./files.ts";
import { inboundChecks } from "./inbound.ts";
import { reconcileChecks } from "./reconcile.ts";
import { remainsChecks } from "./remains.ts";
import { routeChecks } from "./routes.ts";
import { sendChecks } from "./send.ts";
import { sessionChecks } from "./sessions.ts";

/** The conformance suite as plain functions; `describeAdapter` turns them into tests. */
export const checks: readonly Check[] = [
  ...definitionChecks,
  ...createChecks,
  ...inboundChecks,
  ...composeChecks,
  ...sendChecks,
  ...fileChecks,
  ...reconcileChecks,
  ...routeChecks,
  ...sessionChecks,
  ...eventChecks,
  ...remainsChecks,
  ...endChecks,
];

/** Returns the reason why this check does not apply to the harness's adapter (`<ability>: <reason>`), or
 *  null when it applies. */
export function exemption(check: Check, harness: Harness): string | null {
  const missing = check.needs.find((ability) => harness.lacks?.[ability] !== undefined);
  return missing === undefined ? null : `${missing}: ${harness.lacks?.[missing]}`;
}
