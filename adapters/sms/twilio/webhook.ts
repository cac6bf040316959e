// The URLs that Twilio posts to: inbound messages, the same on the fallback URL, and status callbacks.

import { timingSafeEqual } from "node:crypto";
import {
  type Channel,
  countFields,
  type FormFields,
  formField,
  formOf,
  type Log,
  mostFormFields,
  type RoutePath,
} from "bridgehead/contract";
import { getExpectedTwilioSignature, validateRequest } from "twilio/lib/webhooks/webhooks.js";
import type { ReceivedBatch, TextStatus, WebhookEndpoint } from "../provider.ts";
import { statusOfForm, textOfForm } from "./forms.ts";
import type { TwilioSettings } from "./index.ts";

const nothing: ReceivedBatch = { texts: [], statuses: [] };

/** An empty TwiML response. Any content would be sent to the customer. */
const empty = '<?xml version="1.0" encoding="UTF-8"?><Response/>';

/** Returns the webhook endpoints. A verified request whose form has no usable content is logged and gets the normal
 *  response, because a retry could not correct it. */
export function webhookEndpoints(
  channel: Channel,
  settings: TwilioSettings,
  heard: (status: TextStatus) => void,
): readonly WebhookEndpoint[] {
  const logProof = proofLog(channel.log);

  async function proven(
    path: RoutePath,
    request: Request,
    { search }: URL,
  ): Promise<{ form: FormFields; body: Uint8Array } | null> {
    const refuse = (reason: string) => {
      channel.log.warn({ path, reason }, "webhook rejected");
      return null;
    };
    const signature = settings.signatureHeaders.map((name) => request.headers.get(name)).find(Boolean) ?? null;
    if (signature === null) return refuse("it is not signed");
    const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
    if (type !== "application/x-www-form-urlencoded") return refuse("it is no form");
    const body = new Uint8Array(await request.arrayBuffer());
    const form = formOf(new TextDecoder().decode(body));
    if (countFields(form) > mostFormFields) return refuse("it has too many fields");
    const url = channel.url(path);
    if (search !== "") url.search = search;
    const proof = prove(url, signature, form, settings.signingKeys);
    if (proof === null) return refuse("its signature does not hold");
    if (formField(form, "AccountSid") !== settings.accountSid) return refuse("it is of another account");
    logProof(path, proof);
    return { form, body };
  }

  /** `read` returns null for a form without content; `lacks` is then logged as the reason. */
  const route = (
    path: RoutePath,
    lacks: string,
    read: (form: FormFields, body: Uint8Array, url: URL) => ReceivedBatch | null,
  ): WebhookEndpoint => ({
    path,
    async read(request) {
      const url = new URL(request.url);
      const found = await proven(path, request, url);
      if (found === null) return null;
      const batch = read(found.form, found.body, url);
      if (batch === null)
        channel.log.warn({ path, reason: lacks }, "webhook ignored: is this its URL at the provider?");
      return batch ?? nothing;
    },
    answer: () => new Response(empty, { status: 200, headers: { "content-type": "text/xml; charset=utf-8" } }),
  });

  const texts = (path: RoutePath) =>
    route(path, "it is no text: MessageSid, From or To is missing", (form, body) => {
      const text = textOfForm(form, body, new Date(channel.clock.now()));
      return text && { texts: [text], statuses: [] };
    });
  const statuses = route("/status", "it is no status of a sent text", (form, body, url) => {
    const status = statusOfForm(form, url, body);
    if (status !== null) heard(status);
    return status && { texts: [], statuses: [status] };
  });
  return [texts("/inbound"), texts("/inbound-fallback"), statuses];
}

export interface Proof {
  /** Index of the key that matches. */
  readonly key: number;
  /** `exact`: signed as configured. `variant`: with or without the port, or with the query encoded differently. */
  readonly url: "exact" | "variant";
}

/** Verifies X-Twilio-Signature with the provider's own code, against the configured URL and every key. Returns the key
 *  with which the provider signed `form` for `url`; null: no key matches, or there is no signature. `url` is the URL as
 *  configured at the provider, with the query of the request. A fragment is never signed. */
export function prove(url: URL, signature: string | null, form: FormFields, keys: readonly string[]): Proof | null {
  if (signature === null || signature === "") return null;
  const [href = ""] = url.href.split("#", 1);
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
function proofLog(log: Log): (path: string, proof: Proof) => void {
  const logged = new Map<string, string>();
  return (path, proof) => {
    const what = `${proof.key} ${proof.url}`;
    if (logged.get(path) === what) return;
    logged.set(path, what);
    log.info({ path, key: proof.key, url: proof.url }, "request accepted: valid signature");
  };
}
