// Verifies X-Twilio-Signature with the provider's own code, against the configured URL and every configured
// key.

import { timingSafeEqual } from "node:crypto";
import type { Log } from "bridgehead/contract";
import { getExpectedTwilioSignature, validateRequest } from "twilio/lib/webhooks/webhooks.js";

/** A form as flat pairs. A repeated name has a list, as the provider's code expects. It has no
 *  prototype, because the names come from an untrusted request. */
export type Form = Readonly<Record<string, string | readonly string[]>>;

export interface Proof {
  /** Index of the key that matches. */
  readonly key: number;
  /** `exact`: signed as configured. `variant`: with or without the port, or with the query encoded
   *  differently. */
  readonly url: "exact" | "variant";
}

/** Keeps blank values and all repeats, because the signature covers the complete request body. */
export function formOf(body: string): Form {
  const form = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(body)) {
    const before = form[name];
    if (before === undefined) form[name] = value;
    // The request is not verified yet. A body that repeats one name thousands of times must not cost
    // quadratic time.
    else if (Array.isArray(before)) before.push(value);
    else form[name] = [before, value];
  }
  return form;
}

/** Returns the value of a field; the first of several. */
export function field(form: Form, name: string): string | undefined {
  const value = form[name];
  return typeof value === "string" ? value : value?.[0];
}

/** Returns the key with which the provider signed `form` for `url`; null: no key matches, or there is no
 *  signature.
 *  `url` is the URL as configured at the provider, with the query of the request. A fragment is never
 *  signed. */
export function prove(url: URL, signature: string | null, form: Form, keys: readonly string[]): Proof | null {
  if (signature === null || signature === "") return null;
  const signed = new URL(url);
  signed.hash = "";
  const { href } = signed;
  const params = form as Record<string, unknown>;
  const given = Buffer.from(signature);
  const isExact = (key: string) => {
    const expected = Buffer.from(getExpectedTwilioSignature(key, href, params));
    return expected.length === given.length && timingSafeEqual(expected, given);
  };
  // The usual case costs one hash; the provider's code then tries up to six forms of the URL.
  const exact = keys.findIndex((key) => key !== "" && isExact(key));
  if (exact !== -1) return { key: exact, url: "exact" };
  const key = keys.findIndex((one) => one !== "" && validateRequest(one, signature, href, params));
  return key === -1 ? null : { key, url: "variant" };
}

/** Logs which key and URL form match, whenever they change: after a rotation, or behind a new proxy, the
 *  operator needs it. */
export function proofLog(log: Log): (path: string, proof: Proof) => void {
  const told = new Map<string, string>();
  return (path, proof) => {
    const what = `${proof.key} ${proof.url}`;
    if (told.get(path) === what) return;
    told.set(path, what);
    log.info({ path, key: proof.key, url: proof.url }, "a signature holds");
  };
}
