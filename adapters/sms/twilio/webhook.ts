// The addresses that Twilio posts to: a person's text, the same again on the fallback address, what became of ours.

import type { Channel, RoutePath } from "bridgehead/contract";
import type { Door, Heard, TextStatus } from "../provider.ts";
import { textOfForm } from "./received.ts";
import type { TwilioSettings } from "./settings.ts";
import { type Form, field, formOf, proofLog, prove } from "./signature.ts";
import { statusOfForm } from "./status.ts";

const nothing: Heard = { texts: [], statuses: [] };

/** Anything inside would be sent to the person. */
const empty = '<?xml version="1.0" encoding="UTF-8"?><Response/>';

/** Several times what the provider ever sends; each costs time before anything is proven. */
const mostFields = 1000;

/** A proven request whose form says nothing is answered like any other: the provider could not mend it. */
export function doors(
  channel: Channel,
  settings: TwilioSettings,
  heard: (status: TextStatus) => void,
): readonly Door[] {
  const told = proofLog(channel.log);

  async function proven(path: RoutePath, request: Request): Promise<{ form: Form; body: Uint8Array } | null> {
    const refuse = (reason: string) => {
      channel.log.warn({ path, reason }, "a webhook is refused");
      return null;
    };
    const signature =
      settings.signatureHeaders.map((name) => request.headers.get(name)).find(Boolean) ?? null;
    if (signature === null) return refuse("it is not signed");
    const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
    if (type !== "application/x-www-form-urlencoded") return refuse("it is no form");
    const body = new Uint8Array(await request.arrayBuffer());
    const form = formOf(new TextDecoder().decode(body));
    if (Object.keys(form).length > mostFields) return refuse("it has too many fields");
    const url = channel.url(path);
    url.search = new URL(request.url).search;
    const proof = prove(url, signature, form, settings.signingKeys);
    if (proof === null) return refuse("its signature does not hold");
    if (field(form, "AccountSid") !== settings.accountSid) return refuse("it is of another account");
    told(path, proof);
    return { form, body };
  }

  const door = (path: RoutePath, hear: (form: Form, body: Uint8Array, url: URL) => Heard): Door => ({
    path,
    async read(request) {
      const found = await proven(path, request);
      return found && hear(found.form, found.body, new URL(request.url));
    },
    answer: () =>
      new Response(empty, { status: 200, headers: { "content-type": "text/xml; charset=utf-8" } }),
  });

  const hearText = (form: Form, body: Uint8Array): Heard => {
    const text = textOfForm(form, body, new Date(channel.clock.now()));
    return text === null ? nothing : { texts: [text], statuses: [] };
  };
  const hearStatus = (form: Form, body: Uint8Array, url: URL): Heard => {
    const status = statusOfForm(form, url, body);
    if (status !== null) heard(status);
    return status === null ? nothing : { texts: [], statuses: [status] };
  };
  return [door("/inbound", hearText), door("/inbound-fallback", hearText), door("/status", hearStatus)];
}
