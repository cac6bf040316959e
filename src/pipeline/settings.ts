// The agents of the channels: one client each, and the settings from the last read. Settings are read at start and
// every `refresh`, and cached in the store. The daemon starts with the cached settings while the platform is down.

import type { AgentClient, AgentSettings } from "../agent/calls.ts";
import { jitter } from "../ops/clock.ts";
import { failpoints } from "../ops/failpoints.ts";
import type { Core } from "../store/driver.ts";
import type { RateReserve } from "../store/rates.ts";
import { readSettings, writeSettings } from "../store/tables/agents.ts";

interface AgentParts extends Omit<Core, "node"> {
  readonly name: string;
  readonly client: AgentClient;
  readonly refreshMs: number;
  readonly rate: RateReserve;
  /** Called when the settings changed: channels that could not ask may be able to now. */
  changed(): void;
}

/** What is known of an agent. */
export interface AgentState {
  /** Null until the first read or `load`. */
  readonly settings: AgentSettings | null;
  /** Why the platform refuses the agent's calls; null when it accepts them. */
  readonly problem: string | null;
}

/** An agent of the configuration while the daemon runs. */
export class RunningAgent {
  readonly name: string;
  readonly client: AgentClient;
  readonly #parts: AgentParts;
  readonly #state: { -readonly [Name in keyof AgentState]: AgentState[Name] } = { settings: null, problem: null };
  readonly state: AgentState = this.#state;
  /** Ends the sleep between two reads. */
  #wake: () => void = () => undefined;

  constructor(parts: AgentParts) {
    this.name = parts.name;
    this.client = parts.client;
    this.#parts = parts;
  }

  /** Called with each call's result. After a refusal `run` reads the settings immediately; the problem
   *  ends when the key is accepted. */
  report(problem: string | null): void {
    this.#note(problem);
    if (problem !== null) this.#wake();
  }

  /** Loads the settings from the store, so that `state` has them before the first call. */
  async load(): Promise<void> {
    const row = await this.#parts.db.read((q) => readSettings(q, this.name));
    if (row) this.#state.settings = JSON.parse(row.settings) as AgentSettings;
  }

  /** Reads the settings from the platform now. */
  async refresh(signal: AbortSignal): Promise<void> {
    const { db, clock, log, rate, timing } = this.#parts;
    const turn = await rate.take(1, timing.rate.backgroundWait);
    await clock.sleep(turn.waitMs, signal);
    if (!turn.taken || signal.aborted) return;
    const timeout = AbortSignal.timeout(timing.agents.call);
    const result = await this.client.describe(AbortSignal.any([signal, timeout]));
    if (result.kind === "ok") {
      this.#note(null);
      return this.#keep(result.value);
    }
    if (result.kind === "unauthorized") this.#note(result.reason);
    else if (!signal.aborted)
      log.warn({ agent: this.name, reason: result.reason }, "reading the agent's settings failed");
    if (result.kind === "deferred" && result.limited) {
      await db.tx((q) => rate.penalise(q, result.retryAfterMs ?? timing.rate.window));
    }
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, refreshMs, timing } = this.#parts;
    const { settingsRetry, settingsPause } = timing.agents;
    while (!signal.aborted) {
      const refused = new AbortController();
      const wake = () => refused.abort();
      this.#wake = wake;
      await this.refresh(signal).catch((error: unknown) =>
        log.error({ agent: this.name, err: error }, "refreshing an agent's settings failed"),
      );
      await clock.sleep(settingsPause, signal);
      // No question can be asked before the first successful read, so it is retried sooner.
      const pause = jitter(this.#state.settings ? refreshMs : Math.min(settingsRetry, refreshMs), 0.1);
      await clock.sleep(pause - settingsPause, AbortSignal.any([signal, refused.signal]));
    }
  }

  #note(problem: string | null): void {
    const { log } = this.#parts;
    if (problem !== null && this.#state.problem === null)
      log.error({ agent: this.name, reason: problem }, "platform rejects the agent's requests");
    if (problem === null && this.#state.problem !== null)
      log.info({ agent: this.name }, "platform accepts the agent's requests again");
    this.#state.problem = problem;
  }

  async #keep(settings: AgentSettings): Promise<void> {
    const { name } = this;
    const { db, log } = this.#parts;
    const text = JSON.stringify(settings);
    if (text !== JSON.stringify(this.#state.settings)) {
      await db.tx(async (q) => {
        await writeSettings(q, name, text);
        failpoints["settings.commit"].publish({ phase: "before", agent: name });
      });
      failpoints["settings.commit"].publish({ phase: "after", agent: name });
      log.info({ agent: name, status: settings.status }, "agent settings changed");
    }
    this.#state.settings = settings;
    this.#parts.changed();
  }
}
