// Registers the webhook that the bridge needs at the platform: one `each_message` webhook per agent. It reports
// external messages at once, before the next poll. Input: the agents, the policy and the public URL. Effect: calls of
// the platform that look for, register and remove webhooks. Output: one registration row for each webhook. Failure:
// retried with backoff. Crash: the row exists before the request, so the webhook is looked for first.

import { createHash } from "node:crypto";
import type { AgentClient, AgentSettings, CallResult, ListedWebhook } from "../../agent/calls.ts";
import type { Policy } from "../../domain/policy.ts";
import { jitter } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import type { EscalationParts } from "../actions.ts";
import {
  beginRegistration,
  dropRegistration,
  endRegistration,
  type Registration,
  type RegistrationRow,
  registrationsOf,
} from "./rows.ts";

/** The part of an agent that registration uses. */
interface AskedAgent {
  readonly name: string;
  readonly client: Pick<AgentClient, "describe" | "register" | "registered" | "unregister">;
  readonly state: { readonly settings: Pick<AgentSettings, "agentId"> | null; readonly problem: string | null };
}

type RegistrationDeps = Pick<EscalationParts, "policy" | "clock" | "log" | "timing" | "db" | "rate"> & {
  readonly agents: () => Iterable<AskedAgent>;
  /** Public URL of this daemon for the platform; undefined without one. */
  readonly publicUrl: () => string | undefined;
};

/** The result of a round. `unread`: the settings of an agent were not read yet, so no request was made for it. */
type RoundResult = "whole" | "unread" | "failed";

/** Keeps the webhooks of all agents registered. One per daemon. */
export class WebhookRegistrations {
  readonly #deps: RegistrationDeps;
  #isWoken = false;
  #wake: () => void = () => undefined;

  constructor(deps: RegistrationDeps) {
    this.#deps = deps;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, timing } = this.#deps;
    let failures = 0;
    while (!signal.aborted) {
      this.#isWoken = false;
      const woken = new AbortController();
      const wake = () => woken.abort();
      this.#wake = wake;
      const result = await this.#round(signal).catch((error: unknown) => {
        log.error({ err: error }, "platform webhook registration failed");
        return "failed" as const;
      });
      failures = result === "failed" ? failures + 1 : 0;
      const pause = pauseAfter(result, failures, timing.platformWebhook);
      if (!this.#isWoken) await clock.sleep(pause, AbortSignal.any([signal, woken.signal]));
    }
  }

  /** Starts a round now. Called when the agents, their settings or the policy may have changed. */
  wake(): void {
    this.#isWoken = true;
    this.#wake();
  }

  async #round(signal: AbortSignal): Promise<RoundResult> {
    const hook = this.#deps.policy()?.platformWebhook;
    const publicUrl = this.#deps.publicUrl();
    if (!hook?.register || publicUrl === undefined) return "whole";
    let result: RoundResult = "whole";
    for (const agent of this.#deps.agents()) {
      const wanted = agent.state.problem === null ? wantedOf(agent, publicUrl, hook) : null;
      if (wanted === null) result = result === "failed" ? result : "unread";
      else if (!(await this.#ensure(agent, wanted, hook, signal))) result = "failed";
    }
    return result;
  }

  /** Returns true when the wanted webhook is registered and no outdated one is left. */
  async #ensure(agent: AskedAgent, wanted: Registration, hook: Hook, signal: AbortSignal): Promise<boolean> {
    const { db } = this.#deps;
    const rows = await db.read((q) => registrationsOf(q, wanted.agent, trigger));
    const own = rows.find(({ url, digest }) => url === wanted.url && digest === wanted.digest);
    const left: RegistrationRow[] = [];
    for (const row of rows) if (row !== own && !(await this.#remove(agent, row, signal))) left.push(row);
    // Two webhooks with the same URL would deliver every message twice.
    if (left.some(({ url }) => url === wanted.url)) return false;
    if (own?.platform_id != null) return left.length === 0;
    if (own && this.#mayBeUnderWay(own)) return false;
    const found = await this.#lookUp(agent, wanted.url, signal);
    if (found === "not now") return false;
    if (found !== "absent") {
      await this.#record(wanted, { platformId: found.id, secret: null });
      return true;
    }
    if (own) await db.tx((q) => dropRegistration(q, own));
    return this.#register(agent, wanted, hook, signal);
  }

  #mayBeUnderWay({ requested_ago }: RegistrationRow): boolean {
    return requested_ago < this.#deps.timing.platformWebhook.registerTimeout;
  }

  async #record(
    wanted: Registration,
    registered: { readonly platformId: string; readonly secret: string | null },
  ): Promise<void> {
    await this.#deps.db.tx(async (q) => {
      await beginRegistration(q, wanted);
      await endRegistration(q, wanted, registered);
    });
  }

  async #register(agent: AskedAgent, wanted: Registration, hook: Hook, signal: AbortSignal): Promise<boolean> {
    const { db, log } = this.#deps;
    if (!(await this.#takeRate(1, signal))) return false;
    // Another node may be registering it.
    if (!(await db.tx((q) => beginRegistration(q, wanted)))) return false;
    const webhook = {
      url: wanted.url,
      trigger,
      title: "Bridgehead",
      description: "Tells the bridge of what is said in a conversation.",
      headers: { [hook.header]: hook.key },
    } as const;
    const call = { signal: this.#limited(signal), crossing: () => undefined };
    const result = await agent.client.register(webhook, call);
    if (result.kind === "ok") {
      await this.#record(wanted, { platformId: result.value.id, secret: result.value.secret });
      log.info({ agent: agent.name, url: wanted.url }, "platform webhook registered");
      return true;
    }
    await this.#failed(agent, "platform webhook registration failed", result);
    if (result.kind !== "unknown") await db.tx((q) => dropRegistration(q, wanted));
    return false;
  }

  /** Checks whether the platform has the webhook. The id is empty when the platform does not report it. */
  async #lookUp(agent: AskedAgent, url: string, signal: AbortSignal): Promise<RegistrationState> {
    if (!(await this.#takeRate(2, signal))) return "not now";
    const described = await agent.client.describe(this.#limited(signal));
    const listed = await agent.client.registered(this.#limited(signal));
    for (const result of [described, listed]) {
      // A platform without the list endpoint responds 404 or 405, or its gateway 403, which is a valid result.
      if (result.kind === "ok" || (result === listed && isFinal(listed))) continue;
      await this.#failed(agent, "platform webhook look-up failed", result);
      return "not now";
    }
    const found = listed.kind === "ok" ? listed.value.find((one) => isWanted(one, url)) : undefined;
    if (found) return { id: found.id };
    const shown = described.kind === "ok" && described.value.webhooks?.some((one) => isWanted(one, url));
    return shown ? { id: "" } : "absent";
  }

  /** Removes a webhook with an earlier URL or key. Returns false when it may still be registered. */
  async #remove(agent: AskedAgent, row: RegistrationRow, signal: AbortSignal): Promise<boolean> {
    if (row.platform_id === null && this.#mayBeUnderWay(row)) return false;
    const known = row.platform_id ? { id: row.platform_id } : await this.#lookUp(agent, row.url, signal);
    if (known === "not now") return false;
    if (known !== "absent" && !(await this.#unregister(agent, row, known.id, signal))) return false;
    await this.#deps.db.tx((q) => dropRegistration(q, row));
    return true;
  }

  async #unregister(agent: AskedAgent, { url }: Registration, id: string, signal: AbortSignal): Promise<boolean> {
    if (id === "") {
      this.#deps.log.error(
        { agent: agent.name, url },
        "outdated platform webhook not removed: the platform reports no id for it, delete it there",
      );
      return false;
    }
    if (!(await this.#takeRate(1, signal))) return false;
    const result = await agent.client.unregister(id, this.#limited(signal));
    if (result.kind === "ok" || result.kind === "missing") return true;
    await this.#failed(agent, "outdated platform webhook not removed", result);
    return false;
  }

  async #failed(agent: AskedAgent, what: string, result: Exclude<CallResult<unknown>, { kind: "ok" }>): Promise<void> {
    const { db, log, rate, timing } = this.#deps;
    log.error({ agent: agent.name, result: result.kind, reason: result.reason }, what);
    if (result.kind !== "deferred" || !result.limited) return;
    await db.tx((q) => rate.penalise(q, result.retryAfterMs ?? timing.rate.window));
  }

  #limited(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, AbortSignal.timeout(this.#deps.timing.agents.call)]);
  }

  /** Waits for the shared rate limit. Returns false when no calls were granted or the signal aborted. */
  async #takeRate(calls: number, signal: AbortSignal): Promise<boolean> {
    const { clock, rate, timing } = this.#deps;
    const { taken, waitMs } = await rate.take(calls, timing.rate.backgroundWait);
    await clock.sleep(waitMs, signal);
    return taken && !signal.aborted;
  }
}

type RegistrationState = "absent" | "not now" | { readonly id: string };
type Hook = NonNullable<Policy["platformWebhook"]>;

const trigger = "each_message";

/** Returns the milliseconds until the next round. */
function pauseAfter(
  result: RoundResult,
  failures: number,
  { registerUnread, registerRetry, registerLongest }: Timing["platformWebhook"],
): number {
  if (result === "whole") return registerLongest;
  if (result === "unread") return registerUnread;
  return jitter(Math.min(registerRetry * 2 ** (failures - 1), registerLongest));
}

/** True for our trigger at that URL. */
const isWanted = (one: Pick<ListedWebhook, "url" | "trigger">, url: string): boolean =>
  one.url === url && one.trigger === trigger;

/** True when the platform has answered and a retry changes nothing. It has accepted the key in the call before. */
const isFinal = (result: CallResult<unknown>): boolean =>
  result.kind === "refused" ||
  result.kind === "unauthorized" ||
  result.kind === "missing" ||
  (result.kind === "deferred" && /^HTTP 40[45]\b/.test(result.reason));

/** Returns null until the agent's settings were read: another agent under the same name needs its own webhook. */
function wantedOf(
  agent: Pick<AskedAgent, "name" | "state">,
  publicUrl: string,
  hook: Pick<NonNullable<Policy["platformWebhook"]>, "header" | "key">,
): Registration | null {
  const id = agent.state.settings?.agentId;
  if (id === undefined) return null;
  const digest = createHash("sha256")
    .update(JSON.stringify([id, hook.header.toLowerCase(), hook.key]))
    .digest("hex");
  const url = `${publicUrl.replace(/\/$/, "")}/platform/${encodeURIComponent(agent.name)}/message`;
  return { agent: agent.name, trigger, url, digest };
}
