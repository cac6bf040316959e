// Handles status callbacks of a call (Twilio's StatusCallback of a call or a number), during and after the call.

import { externalId, sendKey } from "bridgehead/contract";
import type { Front } from "./dialects/dialect.ts";
import type { Params } from "./signature.ts";

/** Final statuses of an outbound call that was not answered. */
const vain = new Set(["busy", "no-answer", "failed", "canceled"]);
const over = new Set([...vain, "completed"]);

/** Reports delivery of an outbound call under its draft's key. The key binds the call even when the response to the
 *  create request was lost. A call that has ended is recorded as closed, independent of which callback or request
 *  reports the end first. */
export async function callStatus(front: Front, params: Params): Promise<Response> {
  const { CallSid: call = "", CallStatus: status = "", key } = params;
  if (key !== undefined && /^[a-z0-9]+$/.test(key)) {
    const state = vain.has(status) ? "failed" : stateOf(status);
    const about = { key: sendKey(key), sent: [externalId(call)] };
    const id = externalId(`${call}/status/${status}`);
    await front.channel.accept([{ kind: "delivery", id, about, state, detail: status }]);
  }
  if (over.has(status)) await front.closed(call, status === "completed" ? "hung-up" : status);
  return new Response(null, { status: 204 });
}

function stateOf(status: string): "accepted" | "delivered" {
  return status === "in-progress" || status === "answered" || status === "completed"
    ? "delivered"
    : "accepted";
}
