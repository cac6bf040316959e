// X-Twilio-Signature: proven by the provider's own code, against the configured address and every key we hold.

import type { Log } from "bridgehead/contract";
import { getExpectedTwilioSignature, validateRequest } from "twilio/lib/webhooks/webhooks.js";

/** A form as flat pairs; a repeated name has a list, as the provider's code wants it. Without a prototype, because
 *  the names are a stranger's. */
export type Form = Readonly<Record<string, string | readonly string[]>>;

export interface Proof {
  /** Index of the key that fits. */
  readonly key: number;
  /** `exact`: signed as configured; `variant`: with or without the port, or with the query encoded otherwise. */
  readonly url: "exact" | "variant";
}

/** Blank values and all repeats are kept: everything that was sent was signed. */
export function formOf(body: string): Form {
  const form = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(body)) {
    const before = form[name];
    if (before === undefined) form[name] = value;
    // Nothing is proven yet: a stranger's body of one name thousands of times must not cost the square of that.
    else if (Array.isArray(before)) before.push(value);
    else form[name] = [before, value];
  }
  return form;
}

/** The value of a field; the first of several. */
export function field(form: Form, name: string): string | undefined {
  const value = form[name];
  return typeof value === "string" ? value : value?.[0];
}

/**
 * Which key proves that the provider signed `form` for `url`; null: none, or no signature at all.
 * `url` is the address as configured at the provider with the query it came with; a fragment is never signed.
 */
export function prove(url: URL, signature: string | null, form: Form, keys: readonly string[]): Proof | null {
  if (signature === null || signature === "") return null;
  const signed = new URL(url);
  signed.hash = "";
  const params = form as Record<string, unknown>;
  const key = keys.findIndex((one) => one !== "" && validateRequest(one, signature, signed.href, params));
  if (key === -1) return null;
  const exact = getExpectedTwilioSignature(keys[key] ?? "", signed.href, params) === signature;
  return { key, url: exact ? "exact" : "variant" };
}

/** Says which of the keys and addresses fits, whenever that is another than before: after a rotation, or behind a new
 *  proxy, one wants to know. */
export function proofLog(log: Log): (path: string, proof: Proof) => void {
  const told = new Map<string, string>();
  return (path, proof) => {
    const what = `${proof.key} ${proof.url}`;
    if (told.get(path) === what) return;
    told.set(path, what);
    log.info({ path, key: proof.key, url: proof.url }, "a signature holds");
  };
}
