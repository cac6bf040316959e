// Requests the bytes of listed messages. A server that cannot return one of them rejects the request for all (Exchange, for a
// message that it cannot convert; Dovecot, for a damaged one) or ends the connection. They are then requested one by one, so
// that the others are read.

import { type ExternalId, externalId } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import { oneLine } from "../status.ts";
import { bytesOf, type Fetched, type Listed, openMailbox, rowsOf, uidSet } from "./mailbox.ts";

export interface SourceOptions {
  readonly client: ImapFlow;
  /** Bytes of a message that are requested. */
  readonly maxLength: number;
  /** How often the connection ended during the request for a message. Kept across connections. */
  readonly ends: Map<ExternalId, number>;
  readonly idOf: (uid: number) => ExternalId;
}

const keyOf = (id: ExternalId): ExternalId => externalId(`${id}/bytes`);

/** Returns how many connections have ended during the request for a message. */
export const endsOf = (ends: SourceOptions["ends"], id: ExternalId): number => ends.get(keyOf(id)) ?? 0;

/** After this many ends of the connection a message is not requested again. Most connections end for other reasons. */
const endLimit = 8;

/** Returns the bytes of these messages, as `sources`. `failure` is set for a message that the server does not return.
 *  Rejects when the server returns none of several, or none for now. */
export async function readSources(options: SourceOptions, wanted: readonly Listed[]): Promise<Fetched[]> {
  const { client, maxLength, ends, idOf } = options;
  const endsWith = ({ uid }: Listed) => endsOf(ends, idOf(uid));
  const ask = async (some: readonly Listed[]) => {
    for (const one of some) ends.set(keyOf(idOf(one.uid)), endsWith(one) + 1);
    try {
      return await sources(client, some, maxLength);
    } finally {
      if (client.usable) for (const one of some) ends.delete(keyOf(idOf(one.uid)));
    }
  };
  let rejected: unknown = null;
  if (wanted.every((one) => endsWith(one) === 0)) {
    try {
      return await ask(wanted);
    } catch (error) {
      if (rejectionIn(error) === null) throw error;
      rejected = error;
    }
  }
  const found: Fetched[] = [];
  for (const one of wanted) {
    if (endsWith(one) >= endLimit) {
      found.push({ ...one, raw: null, failure: "the server ends the connection when it is requested" });
      continue;
    }
    try {
      found.push(...(await ask([one])));
    } catch (error) {
      const text = rejectionIn(error);
      if (text === null) throw error;
      found.push({ ...one, raw: null, failure: `the server does not return it: ${text}` });
    }
  }
  if (rejected !== null && wanted.length > 1 && found.every(({ failure }) => failure !== undefined)) throw rejected;
  return found;
}

/** Returns the bytes of these messages. `raw` is also null for a message that the server left out of its response. */
export async function sources(client: ImapFlow, wanted: readonly Listed[], maxLength: number): Promise<Fetched[]> {
  if (wanted.length === 0) return [];
  const query = { uid: true, source: { start: 0, maxLength } } as const;
  const range = uidSet(wanted.map((one) => one.uid));
  const rows = openMailbox(client).exists === 0 ? [] : await rowsOf(client, range, query);
  const byUid = new Map(rows.map((row) => [row.uid, row]));
  return wanted.map((one) => {
    const row = byUid.get(one.uid);
    return { ...one, raw: row === undefined ? null : bytesOf(row) };
  });
}

/** The fields of imapflow's error for a tagged NO or BAD. */
interface RejectedCommand {
  readonly code?: string;
  readonly responseStatus?: string;
  readonly responseText?: string;
  readonly response?: {
    readonly attributes?: readonly { readonly section?: readonly { readonly value?: string }[] }[];
  };
}

/** Returns the server's text when the error is its response about the requested messages; null for an error of the connection,
 *  and for a server that returns no message now (RFC 5530). */
function rejectionIn(error: unknown): string | null {
  const { code, responseStatus, responseText = "", response } = (error ?? {}) as RejectedCommand;
  if (code === "ETHROTTLE" || (responseStatus !== "NO" && responseStatus !== "BAD")) return null;
  const reason = response?.attributes?.[0]?.section?.[0]?.value ?? "";
  return /^(?:UNAVAILABLE|INUSE|LIMIT|OVERQUOTA)$/i.test(reason) ? null : oneLine(responseText) || responseStatus;
}

/** Returns null for such a response; throws any other error. */
export function nullIfRejected(error: unknown): null {
  if (rejectionIn(error) === null) throw error;
  return null;
}
