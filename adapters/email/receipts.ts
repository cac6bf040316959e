// Converts delivery reports (RFC 3464) and non-standard bounces into delivery events for our drafts.

import { type DeliveryEvent, type ExternalId, externalId, type SendKey } from "bridgehead/contract";
import type { Arrival } from "./arrival.ts";
import type { Identity } from "./identity.ts";
import type { Finding } from "./parse/index.ts";
import type { Mail } from "./parse/mail.ts";

type Bounce = Extract<Finding, { kind: "bounce" }>;

/** Returns one event for each recipient of a machine-readable report, at least one; the first has the
 *  message's own id. A report parsed from text returns one event with every address in the text; the
 *  core determines the recipient. */
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

/** The envelope id is the draft's key as we sent it to the server, or a Message-ID that we created. */
function keyIn(self: Identity, envelopeId: string | null): SendKey | null {
  if (envelopeId === null) return null;
  return self.keyOf(envelopeId) ?? self.keyOf(`${envelopeId}.bridgehead@${self.address.split("@")[1]}`);
}

/** `delayed` and `delivered` reports have the form of a bounce but do not report a failure. */
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
