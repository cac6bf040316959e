// The channel that no configuration has: it is there as soon as there is a policy, so that every webhook in it has
// something that carries it.

import { channelId } from "bridgehead/contract";
import type { ChannelConfig, Config } from "../../config/index.ts";
import { webhookChannel } from "../../domain/policy.ts";
import { type WebhookDeps, webhookAdapter } from "./adapter.ts";

/** Beside the channels of `config`: none without a policy, or without an agent. The core knows no channel that belongs to
 *  none, so it goes by the name of the first; nobody is asked there. */
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
    // Receivers know a delivery again by its id.
    on_unknown: "resend",
    unknown_window: 0,
    on_dead: "skip",
    on_newer: "send",
    join: 0,
    humans: undefined,
    concurrency: 8,
  };
  return [{ id: channelId(webhookChannel), core, adapter: webhookAdapter(deps), settings: {} }];
}
