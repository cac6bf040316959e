// The channel runtime: a configured channel with its agent, as the pipeline uses it.

import type { Adapter, Outbound, Traits } from "bridgehead/contract";
import type { AgentClient, AgentSettings, CallResult, ChannelSettings } from "../agent/calls.ts";
import type { Cap, Rules } from "../domain/guards.ts";
import type { Lease, LeaseDeadline } from "../store/lanes.ts";
import { allOwn } from "../store/tables/suppressions.ts";
import type { EscalationHooks } from "./escalation.ts";

export interface ChannelRules extends Rules {
  /** `shadow`: drafts to customers are held instead of sent. Default: `live`. */
  readonly mode?: "live" | "shadow" | undefined;
  readonly opening: "start" | "create";
  readonly caps: {
    readonly sender: readonly Cap[];
    readonly conversation: readonly Cap[];
    readonly channel: readonly Cap[];
  };
  /** The limits that pause the channel when they are exceeded. */
  readonly pause_on?: { readonly loops: readonly Cap[]; readonly replies: readonly Cap[] } | undefined;
  /** Sent to a customer whose messages are held by a cap. Absent or empty: nothing is sent. */
  readonly cap_text?: string | undefined;
  readonly on_unknown: "hold" | "resend" | "drop";
  readonly unknown_window: number;
  /** Milliseconds after an unanswered call before a question counts as not asked. The default is the
   *  platform's `absent_after`. */
  readonly absent_after?: number | undefined;
  readonly on_permanent_failure: "continue" | "block";
  readonly on_new_message: "send" | "drop";
  /** Debounce time in milliseconds: the customer's next message within it joins the previous one; 0 disables it. */
  readonly debounce: number;
  /** The notification targets for messages that are not for the agent, and the channel that carries them. */
  readonly notify?: { readonly channel: string; readonly to: readonly string[] } | undefined;
  readonly concurrency: number;
  /** Rate limit: at most `messages` from one sender address in any `per` milliseconds. */
  readonly rate?: { readonly messages: number; readonly per: number } | undefined;
}

export interface ChannelRuntime {
  readonly channel: string;
  /** The agent's name in the configuration. */
  readonly agent: string;
  readonly traits: Traits;
  /** The configuration file, which texts for the operator name (`commandText`). Default: the one at the default place. */
  readonly config?: string | undefined;
  readonly rules: ChannelRules;
  readonly outbound: Outbound | null;
  /** Masks the secrets of the channel's block in a text of its adapter that is stored or shown. */
  readonly mask: (text: string) => string;
  /** Fetches an attachment's bytes; null when the adapter announces no attachments. */
  readonly open: Adapter["open"] | null;
  readonly client: AgentClient;
  /** Returns the canonical form of an address; null when this channel cannot reach it. */
  address(text: string): string | null;
  /** Never null in the daemon, with or without an escalation policy. Null for a channel runtime that is built without an app. */
  escalation(): EscalationHooks | null;
  /** True after the start until the channel has finished its backfill. A STOP that arrived during the
   *  outage is thus applied before replies that became due in it. */
  catchingUp(): boolean;
  /** The settings from the last successful read of the platform; null until the first read succeeds. */
  settings(): AgentSettings | null;
  /** Why nothing is asked now: the platform refuses the agent's key, or the settings could never be read (`AgentState.problem`). */
  problem(): string | null;
  /** Why an operator has to correct a key before the agent answers (`AgentState.refusal`); null without a refusal. */
  refusal(): string | null;
  /** Called with the result of a failed call, and with that of an answered question after a refusal. Forwards it to the
   *  agent that this channel runtime was built with (`RunningAgent.report`). */
  report(result: CallResult<unknown>, isQuestion: boolean): void;
}

/** Returns our address to which a consent applies that was given to `via` (null: the default); `allOwn` where it applies to
 *  the whole channel. */
export const consentAddress = ({ outbound }: Pick<ChannelRuntime, "outbound">, via: string | null): string =>
  outbound?.ownAddress === undefined ? allOwn : (via ?? outbound.ownAddress);

/** Returns the settings of the channel's skill; null when the agent has no such skill, or no settings were read yet. */
export const skillOf = (line: ChannelRuntime): ChannelSettings | null =>
  skillNamed(line.settings(), line.traits.platform);

/** True for the platforms that the start call can open and that need a skill of the agent. */
export const startable = (platform: string | null): platform is "email" | "sms" | "voice" =>
  platform === "email" || platform === "sms" || platform === "voice";

/** Returns the phone number of an SMS or voice address in the platform's format, without the prefix of
 *  another service (`whatsapp:`). Returns null for a withheld number, a `sip:` address and a short code,
 *  because the start call would be refused. */
export const phoneOf = (address: string): string | null => /^(?:[a-z]+:)?(\+\d+)$/.exec(address)?.[1] ?? null;

/** Returns the agent's skill for a channel of the platform, in any status; null when it has none. */
export const skillNamed = (settings: AgentSettings | null, platform: string | null): ChannelSettings | null =>
  startable(platform)
    ? (settings?.[platform] ?? null)
    : (Object.entries(settings?.skills ?? {}).find(([name]) => name === platform)?.[1] ?? null);

/** Work on a leased lane of a channel. */
export interface LaneWork {
  readonly line: ChannelRuntime;
  readonly lease: Lease;
  readonly leaseDeadline: LeaseDeadline;
}

/** The running channel runtimes by channel. A configuration reload replaces entries. */
export type ChannelRuntimes = ReadonlyMap<string, ChannelRuntime>;

/** True while the channel runs here and can send. */
export const canSend = (lines: ChannelRuntimes, channel: string): boolean => Boolean(lines.get(channel)?.outbound);
