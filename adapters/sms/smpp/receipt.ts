// Parses delivery receipts: a text in the customary format (SMPP v3.4, appendix B), optional parameters, or
// both.

import type { DeliveryEvent } from "bridgehead/contract";
import type { TextStatus } from "../provider.ts";
import { userData } from "./encoding.ts";
import { number, type Pdu } from "./pdu.ts";

const tag = { receiptedId: 0x001e, networkError: 0x0423, state: 0x0427 } as const;
/** Bits 2 to 5 of esm_class (5.2.12). */
const receiptBits = { mask: 0x3c, receipt: 0x04, intermediate: 0x20 } as const;

const names = [
  "",
  "ENROUTE",
  "DELIVRD",
  "EXPIRED",
  "DELETED",
  "UNDELIV",
  "ACCEPTD",
  "UNKNOWN",
  "REJECTD",
] as const;
// UNKNOWN means that no further status will follow. It is not a failure.
const failed: readonly string[] = ["EXPIRED", "DELETED", "UNDELIV", "REJECTD"];

export function isReceipt(pdu: Pdu): boolean {
  const bits = number(pdu, "esm_class") & receiptBits.mask;
  return bits === receiptBits.receipt || bits === receiptBits.intermediate;
}

/** Returns null for a receipt that names no text. A failure is never permanent, because networks use
 *  their error codes freely. */
export function readReceipt(pdu: Pdu, ids: "same" | "decimal"): TextStatus | null {
  const words = Buffer.from(userData(pdu).data).toString("latin1");
  const named = pdu.tlvs.get(tag.receiptedId);
  const own = named === undefined ? undefined : Buffer.from(named).toString("latin1").replace(/\0.*$/s, "");
  const id = own || /\bid:\s*([^\s]+)/i.exec(words)?.[1];
  const status =
    names[pdu.tlvs.get(tag.state)?.[0] ?? 0] || /\bstat:\s*([A-Z]+)/i.exec(words)?.[1]?.toUpperCase();
  if (id === undefined || !status) return null;
  const network = pdu.tlvs.get(tag.networkError);
  const code =
    network?.length === 3 ? String(Buffer.from(network).readUInt16BE(1)) : /\berr:\s*(\w+)/i.exec(words)?.[1];
  const state = stateOf(status);
  return {
    id: ids === "decimal" && /^\d+$/.test(id) ? BigInt(id).toString(16) : id,
    key: null,
    status,
    state,
    ...(state === "failed"
      ? { kind: null, code: code ?? status, detail: `the network reports ${status}` }
      : {}),
    raw: pdu.raw,
  };
}

function stateOf(status: string): DeliveryEvent["state"] {
  if (status === "DELIVRD") return "delivered";
  return failed.includes(status) ? "failed" : "accepted";
}
