// bridgehead policy test: shows which responders an unacknowledged escalation would notify, when, and on
// which channels. Sends nothing.

import { resolve } from "node:path";
import type { AgentSettings } from "../agent/index.ts";
import { loadAdapter } from "../channels/loader.ts";
import { loadPolicy } from "../config/index.ts";
import { type About, type Cause, forecast, type Policy } from "../domain/policy.ts";
import { escalationsFor } from "../escalation/agent-recipients.ts";
import { systemClock as clock } from "../ops/clock.ts";
import { readSettings } from "../store/tables/agents.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { forecastJson, forecastText, type Recipients } from "./policy-text.ts";
import { problemLine } from "./problem.ts";
import { useStore } from "./store.ts";

export interface PolicyOptions {
  readonly config: string;
  readonly topic?: string;
  readonly agent?: string;
  readonly channel?: string;
  readonly cause: Cause;
  /** ISO 8601 with its offset from UTC; default: now. */
  readonly at?: string;
  readonly json?: boolean;
}

type Loaded = Extract<Awaited<ReturnType<typeof loadPolicy>>, { ok: true }>;

export async function run(options: PolicyOptions, io: Io): Promise<number> {
  const at = options.at === undefined ? clock.now() : instant(options.at);
  if (at === null) {
    io.err(`--at ${options.at}: must be a time with its offset, such as 2026-12-24T23:30:00+01:00`);
    return exitCodes.usage;
  }
  const loaded = await loadPolicy(resolve(io.cwd, options.config), { env: io.env, adapters: loadAdapter });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  const about = aboutOf(options, loaded);
  if (typeof about === "string") {
    io.err(about);
    return exitCodes.usage;
  }
  const { policy } = loaded;
  const nobody =
    policy === null ? `there is no key escalation in ${loaded.file}` : notEscalated(policy, about);
  if (policy === null || nobody !== null) {
    io.err(`nobody is told: ${nobody}`);
    return exitCodes.failed;
  }
  const told = {
    about,
    at,
    policy,
    recipients: await recipientsOf(loaded, policy, about, io),
    ...forecast(policy, about, at),
  };
  io.out(options.json === true ? JSON.stringify(forecastJson(told)) : forecastText(told));
  return exitCodes.ok;
}

function instant(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}

/** Fills missing options from the configuration: the first channel, and its agent. Returns the reason
 *  when that is impossible. */
function aboutOf(
  { topic, agent, channel, cause }: PolicyOptions,
  { agents, channels }: Loaded,
): About | string {
  if (agent !== undefined && !agents.includes(agent))
    return `there is no agent ${agent}: the file has ${agents.join(", ") || "none"}`;
  const fitting = channels.filter((one) => agent === undefined || one.agent === agent);
  const found =
    channels.find(({ id }) => id === channel) ?? fitting.find(({ enabled }) => enabled) ?? fitting[0];
  if (channel !== undefined && found?.id !== channel)
    return `there is no channel ${channel}: the file has ${channels.map(({ id }) => id).join(", ") || "none"}`;
  if (!found) return agent === undefined ? "the file has no channel" : `agent ${agent} has no channel`;
  return { topic: topic ?? null, agent: agent ?? found.agent, channel: found.id, cause };
}

function notEscalated({ causes }: Policy, { cause }: About): string | null {
  return causes.includes(cause) ? null : `the cause ${cause} is not among escalation.causes`;
}

/** Returns the recipients of the agent's own ESCALATION skill, as the daemon last read them. */
async function recipientsOf(loaded: Loaded, policy: Policy, about: About, io: Io): Promise<Recipients> {
  if (!policy.agentRecipients) return { known: true, list: [] };
  const reasons: string[] = [];
  let settings: AgentSettings | null = null;
  const quiet: Io = { ...io, err: (text) => void reasons.push(text) };
  try {
    await useStore(loaded, quiet, async (db) => {
      const row = await db.read((q) => readSettings(q, about.agent));
      if (row) settings = JSON.parse(row.settings) as AgentSettings;
      else reasons.push(`the settings of agent ${about.agent} were never read: does the daemon run?`);
      return exitCodes.ok;
    });
  } catch (error) {
    reasons.push(`the store cannot be reached: ${(error as Error).message}`);
  }
  const own = (settings as AgentSettings | null)?.escalations;
  if (!own) return { known: false, reason: reasons[0] ?? "the daemon has not read them yet" };
  const list = escalationsFor(about.topic, own).flatMap(({ topic, recipients }) =>
    recipients.map(({ channel, value }) => ({ topic, way: channel, address: value })),
  );
  return { known: true, list };
}
