// The agents of the channels: one client each, and the settings from the last read. Settings are read at start and
// every `refresh`, and cached in the store. The daemon starts with the cached settings while the platform is down.

import type { AgentClient, AgentSettings, CallResult } from "../agent/calls.ts";
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
  /** Why nothing is asked: the platform refused the key when the settings were read, or refused a call since; or the
   *  settings could never be read. */
  readonly problem: string | null;
  /** Why an operator is needed: the platform refused the key, or its model refused the platform's, when the settings were
   *  read or a question was asked. Null since a question was answered, or the settings were read after such a refusal of
   *  their own. */
  readonly refusal: string | null;
  /** True when the platform refused the key at the last read of the settings. */
  readonly isRejected: boolean;
}

/** An agent of the configuration while the daemon runs. */
export class RunningAgent {
  readonly name: string;
  readonly client: AgentClient;
  readonly #parts: AgentParts;
  readonly #state: { -readonly [Name in keyof AgentState]: AgentState[Name] } = {
    settings: null,
    problem: null,
    refusal: null,
    isRejected: false,
  };
  readonly state: AgentState = this.#state;
  /** Ends the sleep between two reads. */
  #wake: () => void = () => undefined;

  constructor(parts: AgentParts) {
    this.name = parts.name;
    this.client = parts.client;
    this.#parts = parts;
  }

  /** Called with the result of a call. `isQuestion`: it asks the agent, or opens a conversation for that. After a refusal of
   *  the key `run` reads the settings immediately; questions are asked again when the key is accepted there. The refusal
   *  of a question ends with an answer: a platform may accept the key for the settings, and not for messages. */
  report(result: CallResult<unknown>, isQuestion: boolean): void {
    if (result.kind === "unauthorized") {
      this.#state.problem = rejectedKey(result.reason);
      this.#wake();
    }
    if (!isQuestion) return;
    if (result.kind === "ok") this.#accepted();
    else if (result.kind === "unauthorized") this.#refused(rejectedKey(result.reason));
    else if (result.kind === "deferred" && result.lasting)
      this.#refused(`the platform's model rejects the request: ${result.reason}`);
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
      if (this.#state.isRejected) this.#accepted();
      this.#state.isRejected = false;
      this.#state.problem = null;
      return this.#keep(result.value);
    }
    if (result.kind === "unauthorized") {
      this.#state.isRejected = true;
      this.#state.problem = rejectedKey(result.reason);
      this.#refused(this.#state.problem);
    } else if (!signal.aborted) {
      if (this.#state.settings === null) this.#state.problem = `the agent's settings were never read: ${result.reason}`;
      log.warn({ agent: this.name, reason: result.reason }, "reading the agent's settings failed");
    }
    if (result.kind === "deferred" && result.limited) {
      await db.tx((q) => rate.penalise(q, result.retryAfterMs ?? timing.rate.window));
    }
  }

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

  #refused(reason: string): void {
    if (this.#state.refusal === null)
      this.#parts.log.error({ agent: this.name, reason }, "platform rejects the agent's requests");
    this.#state.refusal = reason;
  }

  #accepted(): void {
    if (this.#state.refusal !== null)
      this.#parts.log.info({ agent: this.name }, "platform accepts the agent's requests again");
    this.#state.refusal = null;
    this.#state.problem = null;
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

const rejectedKey = (reason: string): string => `the platform rejects its key: ${reason}`;
