// The running daemon's view: /readyz of its admin listener, as the operator's monitoring reads it.

import type { ChannelReport } from "../../channels/readiness.ts";
import type { Config } from "../../config/index.ts";
import { commandText } from "../../domain/command-text.ts";
import { minutesText } from "../../domain/duration-text.ts";
import type { Timing } from "../../ops/timing.ts";
import type { ChannelOverview } from "../../store/operators/overview.ts";
import { type DaemonState, get, localUrl } from "../http.ts";
import type { Requesting } from "../io.ts";
import { type Diagnosis, diagnosis } from "./catalogue.ts";

type OperatorCommand = (words: string) => string;

/** URL of the admin listener; null when its port is chosen at the start. */
export const adminUrl = ({ http: { admin_listen: listen } }: Config): string | null =>
  listen.port === 0 ? null : localUrl(listen);

/** Reads the state of the daemon; null when none answers. */
export async function readDaemon(config: Config, io: Requesting): Promise<DaemonState | null> {
  const url = adminUrl(config);
  if (url === null) return null;
  try {
    return JSON.parse((await get(new URL("/readyz", url), io)).body) as DaemonState;
  } catch {
    return null;
  }
}

/** Judges the daemon's state. `state` is null when no daemon answers. */
export function daemonProblems(
  config: Config,
  state: DaemonState | null,
  timing: Pick<Timing, "console">,
): Diagnosis[] {
  const url = adminUrl(config);
  if (url === null) return [];
  if (state === null) {
    const cause = `no daemon answers at ${url}: its channels, and what it does now, are unknown`;
    return [
      diagnosis(
        "daemon-stopped",
        "http.admin_listen",
        cause,
        `sudo systemctl start bridgehead; without a service: ${commandText("run", config.file)}`,
      ),
    ];
  }
  const command: OperatorCommand = (words) => commandText(words, config.file);
  const logs = "journalctl -u bridgehead -e";
  const channels = state.channels ?? [];
  const stored = Array.isArray(state.store) ? (state.store as ChannelOverview[]) : [];
  const paused = new Set<string>(channels.filter((one) => one.paused !== null).map(({ id }) => id));
  const notReady = () => {
    const down = channels.filter(({ state: now }) => now !== "ready" && now !== "standby").map(({ id }) => id);
    const reason =
      typeof state.store === "string"
        ? `the store: ${state.store}`
        : (state.reason ?? (down.length > 0 ? `these channels do not work: ${down.join(", ")}` : "see /readyz"));
    return diagnosis("daemon-not-ready", url, `the daemon is not ready: ${reason}`, `curl -s ${url}/readyz; ${logs}`);
  };
  return [
    ...(state.ready === false ? [notReady()] : []),
    ...(state.warnings ?? []).map((text) => diagnosis("daemon-warning", "daemon", text, `curl -s ${url}/readyz`)),
    ...channels.flatMap((channel) => channelProblems(channel, logs, command)),
    ...stored.flatMap((one) => pauseProblems(one, command)),
    ...stored
      .filter(({ channel }) => !paused.has(channel))
      .flatMap((one) => lateProblems(one, timing.console.late, command)),
    ...escalationProblems(state, command),
  ];
}

function channelProblems(channel: ChannelReport, logs: string, command: OperatorCommand): Diagnosis[] {
  const place = `channel ${channel.id}`;
  const since = `since ${channel.since}`;
  const isDown = channel.state === "degraded" || channel.state === "unauthorized";
  const reason = channel.reason ?? channel.state;
  const remedy =
    channel.state === "unauthorized"
      ? `correct the credentials under channels.${channel.id}, then: sudo systemctl restart bridgehead`
      : `${command("doctor --online")}; ${logs}`;
  return [
    ...(isDown ? [diagnosis("channel-down", place, `does not work ${since}: ${reason}`, remedy)] : []),
    ...(channel.not_asking === null
      ? []
      : [
          diagnosis(
            "channel-not-asking",
            place,
            `reads messages and does not ask its agent: ${channel.not_asking}`,
            "activate the agent and its skill on the platform, or correct its key",
          ),
        ]),
    ...channel.warnings.map((text) => diagnosis("channel-warning", place, text, logs)),
  ];
}

function pauseProblems({ channel, paused_for, paused_reason }: ChannelOverview, command: OperatorCommand): Diagnosis[] {
  if (paused_for <= 0) return [];
  const seconds = Math.ceil(paused_for / 1000);
  const cause = `sends nothing for ${seconds} s: ${paused_reason}`;
  const remedy = `cure the reason; the daemon then tries again by itself: ${command(`outbox list --channel ${channel}`)}`;
  return [diagnosis("sending-paused", `channel ${channel}`, cause, remedy)];
}

/** Work of a channel that is not paused and waits longer than `limitMs`: the platform, its model or the provider fails. */
function lateProblems(
  { channel, oldest_turn, oldest_draft }: ChannelOverview,
  limitMs: number,
  command: OperatorCommand,
): Diagnosis[] {
  const late = (waits: number | null, what: string, list: string) =>
    waits === null || waits <= limitMs
      ? []
      : [
          diagnosis(
            "messages-late",
            `channel ${channel}`,
            `${what} for ${minutesText(waits)}`,
            command(`${list} --channel ${channel}`),
          ),
        ];
  return [
    ...late(oldest_turn, "a message waits for the agent's answer", "conversation list --state waiting"),
    ...late(oldest_draft, "a reply waits to be sent", "outbox list --state queued"),
  ];
}

function escalationProblems({ escalations }: DaemonState, command: OperatorCommand): Diagnosis[] {
  if (escalations === undefined) return [];
  const { dead = [], paths = [], unreached = 0, numbers = [] } = escalations;
  const all = dead.length === paths.length ? "no responder can be notified" : "its notifications are not delivered";
  return [
    ...dead.map((path) => {
      const remedy = `${command("doctor --online")}; then test: ${command("policy test")}`;
      return diagnosis(
        "escalation-path-down",
        `channel ${path}`,
        `the channel carries notifications and is down: ${all}`,
        remedy,
      );
    }),
    ...(unreached === 0
      ? []
      : [
          diagnosis(
            "escalation-unreached",
            `escalation ${numbers.join(", ")}`,
            `no notification about ${unreached} open escalations was delivered`,
            command(`escalation show ${numbers[0] ?? ""}`),
          ),
        ]),
  ];
}
