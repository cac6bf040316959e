// Opt-out as reported by the provider. Used by stages ask, send and reconcile.

import type { Query } from "../../store/driver.ts";
import { suppress } from "../../store/tables/suppressions.ts";

/** The code of a refused outcome or of a delivery receipt when the provider reports that the recipient
 *  has opted out. */
export const optedOut = "opted-out";

/** The code of a message or turn that is not asked because its recipient is suppressed. */
export const suppressedCode = "suppressed";

/** Suppresses the address immediately, without counting strikes, because the recipient asked for it. */
export async function suppressOptedOut(
  q: Query,
  channel: string,
  address: string,
  reason: string,
): Promise<void> {
  await suppress(q, channel, address, `the provider says that they opted out: ${reason}`);
}
