// Checks whether the login is accepted and whether the provider can reach us. Sends no messages and changes
// nothing.

import type { ChannelStatus } from "bridgehead/contract";
import { type Client, isApiFailure } from "./client.ts";
import { statusOf } from "./errors.ts";
import { isLocal, type TwilioSettings } from "./settings.ts";

export async function probe(
  webhook: URL,
  settings: TwilioSettings,
  client: Client,
  signal: AbortSignal,
): Promise<ChannelStatus> {
  try {
    await client.login(signal);
  } catch (error) {
    if (isApiFailure(error)) {
      const { status } = error.api;
      return statusOf(error.api) ?? { state: "degraded", code: `HTTP ${status}`, reason: error.message };
    }
    const reason = `the provider was not reached: ${error instanceof Error ? error.message : String(error)}`;
    return { state: "degraded", code: "connection", reason };
  }
  return addressProblem(webhook, settings.apiUrl) ?? { state: "ready" };
}

/** Returns what prevents a remote provider from posting to us; null: no problem that is visible from
 *  here. */
export function addressProblem(webhook: URL, apiUrl: string): ChannelStatus | null {
  if (isLocal(apiUrl)) return null;
  const problem = (reason: string): ChannelStatus => ({ state: "degraded", code: "public-url", reason });
  if (isLocal(webhook)) {
    return problem("http.public_url is missing, or of this machine: the provider cannot tell us of texts");
  }
  if (webhook.protocol !== "https:")
    return problem("http.public_url is not https: texts would travel in the open");
  if (webhook.hostname.includes("_"))
    return problem("http.public_url has an underscore in its host, which the provider does not take");
  return null;
}
