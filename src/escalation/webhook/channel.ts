// The implicit webhook channel. It exists whenever there is a policy, so that every webhook in the policy
// has a carrier.

import { channelId } from "bridgehead/contract";
import type { ChannelConfig, Config } from "../../config/index.ts";
import { webhookChannel } from "../../domain/policy.ts";
import { atOnce, type WebhookDeps, webhookAdapter } from "./adapter.ts";

/** Returns the channel in addition to those of `config`; none without a policy or without an agent. The
 *  core requires an agent for each channel, so the first one is named; it is never asked on this
 *  channel. */
export function webhookChannels(config: Config, deps: WebhookDeps): readonly ChannelConfig[] {
  const agent = config.channels.find(({ core }) => core.enabled)?.core.agent ?? Object.keys(config.agents)[0];
  if (config.escalation === null || agent === undefined) return [];
  const core: ChannelConfig["core"] = {
    adapter: "webhook",
    agent,
    enabled: true,
    opening: "create",
    max_age: Number.MAX_SAFE_INTEGER,
    allow: [],
    deny: [],
    caps: { sender: [], conversation: [], channel: [] },
    // Receivers deduplicate a delivery by its id.
    on_unknown: "resend",
    unknown_window: 0,
    on_dead: "skip",
    on_newer: "send",
    join: 0,
    humans: undefined,
    concurrency: atOnce,
  };
  return [{ id: channelId(webhookChannel), core, adapter: webhookAdapter(deps), settings: {} }];
}
