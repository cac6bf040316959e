// What became of a text of ours, as an event of the core.

import { type DeliveryEvent, externalId } from "bridgehead/contract";
import { statusEventId, type TextStatus } from "./provider.ts";

/** A text has several statuses, in any order and more than once: text and status together are the event. */
export function eventOfStatus(status: TextStatus): DeliveryEvent {
  const { id, key, code, detail, raw, permanent } = status;
  const words = [status.status, code, detail].filter((word) => word !== undefined).join(" ");
  return {
    kind: "delivery",
    id: statusEventId(id, status.status),
    about: { ...(key === null ? {} : { key }), sent: [externalId(id)] },
    state: status.state,
    detail: words,
    ...(permanent === undefined ? {} : { permanent }),
    ...(raw === undefined ? {} : { raw }),
  };
}
