// What the provider reports of a call while and after it happens (Twilio's StatusCallback of a call or a number).

import { externalId, sendKey } from "bridgehead/contract";
import type { Front } from "./dialects/dialect.ts";
import type { Params } from "./signature.ts";

/** A call that was placed and reached nobody. */
const vain = new Set(["busy", "no-answer", "failed", "canceled"]);
const over = new Set([...vain, "completed"]);

/** A call that we placed is settled under its draft's key, so that it is known also when the answer of the placing was lost.
 *  A call that is over is recorded as over, whoever noticed first. */
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
