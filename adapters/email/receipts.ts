// Delivery reports (RFC 3464) and bounces that follow no standard: what they say about what we sent.

import { type DeliveryEvent, type ExternalId, externalId, type SendKey } from "bridgehead/contract";
import type { Arrival } from "./arrival.ts";
import type { Identity } from "./identity.ts";
import type { Finding } from "./parse/index.ts";
import type { Mail } from "./parse/mail.ts";

type Bounce = Extract<Finding, { kind: "bounce" }>;

/**
 * One event for each recipient of a machine-readable report, at least one; the first has the mail's own id. A report that
 * is read from text is one event with every address of the text, of which the core knows the recipient.
 */
export function deliveries(
  self: Identity,
  arrival: Arrival,
  mail: Mail,
  bounce: Bounce,
  raw: Uint8Array | null,
): DeliveryEvent[] {
  const recipients = bounce.recipients.length > 0 && !bounce.guessed ? bounce.recipients : [null];
  return recipients.map((recipient, index) => ({
    kind: "delivery",
    id: index === 0 ? arrival.id : externalId(`${arrival.id}/${index + 1}`),
    fingerprint: `${mail.messageId ?? ""}+${mail.digest}${index === 0 ? "" : `/${index + 1}`}`,
    about: aboutOf(self, mail, bounce, recipient),
    ...fateOf(mail, bounce, recipient),
    ...(bounce.detail ? { detail: bounce.detail } : {}),
    ...(index === 0 && raw !== null ? { raw } : {}),
  }));
}

function aboutOf(
  self: Identity,
  mail: Mail,
  bounce: Bounce,
  recipient: string | null,
): DeliveryEvent["about"] {
  const sent = [...new Set([...bounce.about, ...mail.inReplyTo, ...mail.references])];
  const key =
    keyIn(self, bounce.envelopeId) ?? sent.map((id) => self.keyOf(id)).find((found) => found !== null);
  return {
    ...(key ? { key } : {}),
    ...(sent.length > 0 ? { sent: sent.map((id): ExternalId => externalId(id)) } : {}),
    ...(recipient ? { recipient } : {}),
    ...(bounce.guessed && bounce.recipients.length > 0 ? { mentioned: bounce.recipients } : {}),
  };
}

/** The envelope id is the draft's key as we gave it to the server, or a Message-ID of ours. */
function keyIn(self: Identity, envelopeId: string | null): SendKey | null {
  if (envelopeId === null) return null;
  return self.keyOf(envelopeId) ?? self.keyOf(`${envelopeId}.bridgehead@${self.address.split("@")[1]}`);
}

/** `delayed` and `delivered` reports have the form of a bounce, and are none. */
function fateOf(
  mail: Mail,
  bounce: Bounce,
  recipient: string | null,
): Pick<DeliveryEvent, "state" | "permanent"> {
  const rows = mail.report?.recipients ?? [];
  const row = rows.find((one) => one.address === recipient) ?? rows[0];
  if (row?.action === "delayed") return { state: "accepted" };
  if (row !== undefined && ["delivered", "relayed", "expanded"].includes(row.action))
    return { state: "delivered" };
  return { state: "failed", permanent: bounce.permanent };
}
