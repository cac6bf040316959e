// The agents of the channels: one client each, and the settings from the last read. Settings are read at
// start and every `refresh`, and cached in the store. The daemon starts with the cached settings while the
// platform is down.

import type { Clock, Log } from "bridgehead/contract";
import type { AgentClient, AgentSettings } from "../agent/calls.ts";
import { rateWindow } from "../domain/retry.ts";
import { jitter } from "../ops/clock.ts";
import { failpoints } from "../ops/failpoints.ts";
import type { Timing } from "../ops/timing.ts";
import type { Database } from "../store/driver.ts";
import type { RateReserve } from "../store/rates.ts";
import { readSettings, writeSettings } from "../store/tables/agents.ts";

export interface RunningAgent {
  readonly name: string;
  readonly client: AgentClient;
  settings(): AgentSettings | null;
  /** Why the platform refuses the agent's calls or does not answer; null when the last call succeeded. */
  problem(): string | null;
  /** Called with each call's result. After a refusal `run` reads the settings immediately; the problem
   *  ends when the key is accepted. */
  report(problem: string | null): void;
  /** Loads the settings from the store, so that settings() returns them before the first call. */
  load(): Promise<void>;
  /** Reads the settings from the platform now. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

export function createAgent(options: {
  readonly name: string;
  readonly client: AgentClient;
  readonly refreshMs: number;
  readonly db: Database;
  readonly rate: RateReserve;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
  /** Called when the settings changed: channels that could not ask may be able to now. */
  changed(): void;
}): RunningAgent {
  const { name, client, db, clock, log } = options;
  const { call, settingsRetry, settingsPause } = options.timing.agents;
  let settings: AgentSettings | null = null;
  let problem: string | null = null;
  /** Ends the sleep between two reads. */
  let nudge: () => void = () => undefined;

  function note(next: string | null): void {
    if (next !== null && problem === null)
      log.error({ agent: name, reason: next }, "platform rejects the agent's requests");
    if (next === null && problem !== null)
      log.info({ agent: name }, "platform accepts the agent's requests again");
    problem = next;
  }

  function report(next: string | null): void {
    note(next);
    if (next !== null) nudge();
  }

  async function keep(next: AgentSettings): Promise<void> {
    const text = JSON.stringify(next);
    if (text !== JSON.stringify(settings)) {
      await db.tx(async (q) => {
        await writeSettings(q, name, text);
        failpoints["settings.commit"].publish({ phase: "before", agent: name });
      });
      failpoints["settings.commit"].publish({ phase: "after", agent: name });
      log.info({ agent: name, status: next.status }, "agent settings changed");
    }
    settings = next;
    options.changed();
  }

  async function refresh(signal: AbortSignal): Promise<void> {
    const turn = await options.rate.take(1, options.timing.rate.backgroundWait);
    await clock.sleep(turn.waitMs, signal);
    if (!turn.taken || signal.aborted) return;
    const result = await client.describe(AbortSignal.any([signal, AbortSignal.timeout(call)]));
    if (result.kind === "ok") {
      note(null);
      return keep(result.value);
    }
    if (result.kind === "unauthorized") note(result.reason);
    else if (!signal.aborted)
      log.warn({ agent: name, reason: result.reason }, "reading the agent's settings failed");
    if (result.kind === "deferred" && result.limited) {
      await db.tx((q) => options.rate.penalise(q, result.retryAfterMs ?? rateWindow));
    }
  }

  return {
    name,
    client,
    settings: () => settings,
    problem: () => problem,
    report,
    refresh,
    async load() {
      const row = await db.read((q) => readSettings(q, name));
      if (row) settings = JSON.parse(row.settings) as AgentSettings;
    },
    async run(signal) {
      while (!signal.aborted) {
        const refused = new AbortController();
        nudge = () => refused.abort();
        await refresh(signal).catch((error: unknown) =>
          log.error({ agent: name, err: error }, "refreshing an agent's settings failed"),
        );
        await clock.sleep(settingsPause, signal);
        // No question can be asked before the first successful read, so it is retried sooner.
        const pause = jitter(settings ? options.refreshMs : Math.min(settingsRetry, options.refreshMs), 0.1);
        await clock.sleep(pause - settingsPause, AbortSignal.any([signal, refused.signal]));
      }
    },
  };
}
