// Converts the status of a sent text to a delivery event of the core.

import { type DeliveryEvent, externalId } from "bridgehead/contract";
import { isPermanent, type TextClass } from "./classes.ts";
import { statusEventId, type TextStatus } from "./provider.ts";

/** A text has several statuses, in any order and with duplicates. Text and status together form the
 *  event id. */
export function eventOfStatus(status: TextStatus): DeliveryEvent {
  const { id, key, code, detail, raw, kind } = status;
  const words = [status.status, code, detail].filter((word) => word !== undefined).join(" ");
  return {
    kind: "delivery",
    id: statusEventId(id, status.status),
    about: { ...(key === null ? {} : { key }), sent: [externalId(id)] },
    state: status.state,
    detail: words,
    ...(kind === undefined ? {} : { permanent: isPermanent(kind), ...codeOf(kind, code) }),
    ...(raw === undefined ? {} : { raw }),
  };
}

/** Returns the error code that `outcomeOf` uses when the provider reports the error in its response. */
function codeOf(kind: TextClass | null, code: string | undefined): { readonly code?: string } {
  if (kind === "opted-out") return { code: kind };
  return code === undefined ? {} : { code };
}
