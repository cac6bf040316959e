// Parses machine-readable reports: delivery status (RFC 3464), read receipts (RFC 8098), abuse reports (RFC
// 5965).

import { cleanLine } from "./cleaning.ts";
import { cleanAddress, messageIdsOf } from "./headers.ts";
import type { DeliveryReport } from "./mail.ts";
import { type Part, walk } from "./tree.ts";

const maxRecipients = 200;
/** Bytes of a report or of a returned message that are read. */
const maxBytes = 200_000;

type Fields = ReadonlyMap<string, string>;

/** Returns the report in a message, or null when it has none. */
export function reportOf(root: Part): DeliveryReport | null {
  const parts = [...walk(root)];
  const status = parts.find((part) => /^message\/(?:global-)?delivery-status$/.test(part.mediaType));
  const receipt = parts.find((part) =>
    /^message\/(?:global-)?disposition-notification$/.test(part.mediaType),
  );
  const abuse = parts.find((part) => part.mediaType === "message/feedback-report");
  const told =
    root.mediaType === "multipart/report" ? (root.parameters["report-type"] ?? "").toLowerCase() : "";
  const found = status ?? receipt ?? abuse;
  if (found === undefined && told === "") return null;
  const groups = found === undefined ? [] : fieldGroups(latin(found.content));
  const type =
    told || (status ? "delivery-status" : receipt ? "disposition-notification" : "feedback-report");
  return {
    type: cleanLine(type, 60),
    recipients: groups.flatMap(recipientOf).slice(0, maxRecipients),
    about: [
      ...new Set([
        ...groups.flatMap((fields) => messageIdsOf(fields.get("original-message-id") ?? null)),
        ...returnedIds(parts),
      ]),
    ],
    envelopeId: envelopeIdOf(groups),
  };
}

function recipientOf(fields: Fields): DeliveryReport["recipients"][number][] {
  const final =
    fields.get("final-recipient") ?? fields.get("original-recipient") ?? fields.get("original-rcpt-to");
  if (final === undefined) return [];
  // Format: "rfc822; a@example.com". The original recipient is the address we used; the final one may be an
  // alias behind it.
  const original = fields.get("original-recipient");
  const address = addressIn(original ?? "") || addressIn(final);
  return [
    {
      address,
      action: (fields.get("action") ?? "").toLowerCase().split(/[\s;(]/, 1)[0] ?? "",
      status: /\b[245]\.\d{1,3}\.\d{1,3}\b/.exec(fields.get("status") ?? "")?.[0] ?? "",
      diagnostic: cleanLine(fields.get("diagnostic-code") ?? fields.get("disposition") ?? "", 500),
    },
  ];
}

function addressIn(value: string): string {
  return cleanAddress(value.slice(value.indexOf(";") + 1).trim());
}

function envelopeIdOf(groups: readonly Fields[]): string | null {
  const id = groups.map((fields) => fields.get("original-envelope-id")).find((value) => value !== undefined);
  return id === undefined ? null : cleanLine(id, 200);
}

/** Returns the Message-IDs of the returned message, from a complete copy or from its header. */
function returnedIds(parts: readonly Part[]): string[] {
  return parts
    .filter((part) =>
      /^(?:message\/(?:rfc822|global|rfc822-headers|global-headers)|text\/rfc822-headers)$/.test(
        part.mediaType,
      ),
    )
    .flatMap((part) => idsOfReturned(part.content))
    .slice(0, 20);
}

/** Returns the Message-ID in the header of a returned message. */
export function idsOfReturned(bytes: Uint8Array): string[] {
  return fieldGroups(latin(bytes), 1).flatMap((fields) => messageIdsOf(fields.get("message-id") ?? null));
}

const latin = (bytes: Uint8Array) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, maxBytes)).toString("latin1");

/** Returns groups of `Name: value` fields separated by blank lines; the first field of a name counts. */
function fieldGroups(text: string, max = maxRecipients + 1): Fields[] {
  const groups: Map<string, string>[] = [new Map()];
  let last = "";
  for (const line of text.split("\n")) {
    const group = groups.at(-1) as Map<string, string>;
    if (line.trim() === "") {
      if (group.size > 0 && groups.length >= max) return groups;
      if (group.size > 0) groups.push(new Map());
    } else if (/^[ \t]/.test(line)) {
      const value = group.get(last) ?? "";
      if (value.length < 4000) group.set(last, `${value} ${line.trim()}`);
    } else {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      last = line.slice(0, colon).trim().toLowerCase();
      if (group.has(last)) last = "";
      else group.set(last, line.slice(colon + 1).trim());
    }
  }
  return groups.filter((group) => group.size > 0);
}
