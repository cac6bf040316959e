// What the configuration, or the agent's skill, says of the one behind a URL now: looked up for each delivery, so that no
// secret is stored with what is to be sent, and nobody is told who is not to be told any more.

import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Policy } from "../../domain/policy.ts";
import type { Lines } from "../../pipeline/line.ts";

export interface Recipient {
  readonly headers: Readonly<Record<string, string>>;
  /** Of Standard Webhooks (`whsec_...`); null: what they get is not signed. */
  readonly secret: string | null;
}

/** `stranger`: nobody has that URL. `unread`: an agent's skill may have it, which was never read yet. */
export function recipientAt(
  url: string,
  policy: Policy | null,
  lines: Lines,
): Recipient | "stranger" | "unread" {
  if (policy === null) return "stranger";
  for (const { webhook } of policy.people.values()) if (webhook?.url === url) return webhook;
  const settings = [...lines.values()].map((line) => line.settings());
  const named = settings
    .flatMap((one) => one?.escalations ?? [])
    .flatMap(({ recipients }) => recipients)
    .find(({ channel, value }) => channel === "webhook" && value === url);
  if (named) return { headers: sendable(named.headers ?? {}), secret: null };
  return settings.includes(null) ? "unread" : "stranger";
}

/** Those that say how a request is carried, or that it is ours. */
const reserved =
  /^(host|connection|content-.*|transfer-encoding|upgrade|te|trailer|expect|keep-alive|proxy-.*|webhook-.*)$/i;

/** The policy's headers were checked when it was read. The skill's come from the platform: what is ours to set, and what
 *  is no header, does not stop the notice. */
function sendable(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name, value]) => {
      try {
        validateHeaderName(name);
        validateHeaderValue(name, value);
      } catch {
        return false;
      }
      return !reserved.test(name);
    }),
  );
}
