// Registers the webhook that the bridge needs at the platform: one `each_message` webhook per agent. It
// reports external messages at once, before the next poll.
// Input: the agents, the policy and the public URL.
// Effect: calls of the platform that look for, register and remove webhooks.
// Output: one registration row for each webhook.
// Failure: retried with backoff. Crash: the row exists before the request, so the webhook is looked for first.

import { createHash } from "node:crypto";
import type { Clock, Log } from "bridgehead/contract";
import type { AgentClient, AgentSettings, CallResult, ListedWebhook } from "../../agent/calls.ts";
import type { Policy } from "../../domain/policy.ts";
import { rateWindow } from "../../domain/retry.ts";
import type { RateReserve } from "../../engine/rate-reserve.ts";
import { jitter } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Database } from "../../store/driver.ts";
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
  settings(): AgentSettings | null;
  problem(): string | null;
}

export interface RegisteringDeps {
  readonly db: Database;
  readonly policy: () => Policy | null;
  readonly agents: () => Iterable<AskedAgent>;
  /** Public URL of this daemon for the platform; undefined when there is none. */
  readonly publicUrl: () => string | undefined;
  readonly rate: RateReserve;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
}

export interface Registering {
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** Starts a round now. Called when the agents, their settings or the policy may have changed. */
  wake(): void;
}

export function createRegistering(deps: RegisteringDeps): Registering {
  const { clock, log } = deps;
  const { registerSettled } = deps.timing.platformWebhook;
  const bounded = (signal: AbortSignal): AbortSignal =>
    AbortSignal.any([signal, AbortSignal.timeout(deps.timing.agents.call)]);
  let nudged = false;
  let nudge: () => void = () => undefined;

  /** `unread`: the agent's settings were not read yet, so no request was made. */
  async function round(signal: AbortSignal): Promise<"whole" | "unread" | "failed"> {
    const hook = deps.policy()?.platformWebhook;
    const publicUrl = deps.publicUrl();
    if (!hook?.register || publicUrl === undefined) return "whole";
    let all: "whole" | "unread" | "failed" = "whole";
    for (const agent of deps.agents()) {
      const wanted = agent.problem() === null ? wantedOf(agent, publicUrl, hook) : null;
      if (wanted === null) all = all === "failed" ? all : "unread";
      else if (!(await ensure(agent, wanted, hook, signal))) all = "failed";
    }
    return all;
  }

  /** Returns true when the wanted webhook is registered and no outdated one is left. */
  async function ensure(
    agent: AskedAgent,
    wanted: Registration,
    hook: Hook,
    signal: AbortSignal,
  ): Promise<boolean> {
    const rows = await deps.db.read((q) => registrationsOf(q, wanted.agent, trigger));
    const own = rows.find(({ url, digest }) => url === wanted.url && digest === wanted.digest);
    const left: RegistrationRow[] = [];
    for (const row of rows) if (row !== own && !(await remove(agent, row, signal))) left.push(row);
    // Two webhooks with the same URL would deliver every message twice.
    if (left.some(({ url }) => url === wanted.url)) return false;
    if (own?.platform_id != null) return left.length === 0;
    if (own && own.asked_ago < registerSettled) return false;
    const there = await look(agent, wanted.url, signal);
    if (there === "not now") return false;
    if (there !== "absent") {
      await note(wanted, { platformId: there.id, secret: null });
      return true;
    }
    if (own) await deps.db.tx((q) => dropRegistration(q, own));
    return ask(agent, wanted, hook, signal);
  }

  async function note(
    wanted: Registration,
    is: { readonly platformId: string; readonly secret: string | null },
  ): Promise<void> {
    await deps.db.tx(async (q) => {
      await beginRegistration(q, wanted);
      await endRegistration(q, wanted, is);
    });
  }

  async function ask(
    agent: AskedAgent,
    wanted: Registration,
    hook: Hook,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (!(await turn(1, signal))) return false;
    // Another node may be registering it.
    if (!(await deps.db.tx((q) => beginRegistration(q, wanted)))) return false;
    const webhook = {
      url: wanted.url,
      trigger,
      title: "Bridgehead",
      description: "Tells the bridge of what is said in a conversation.",
      headers: { [hook.header]: hook.key },
    } as const;
    const call = { signal: bounded(signal), crossing: () => undefined };
    const result = await agent.client.register(webhook, call);
    if (result.kind === "ok") {
      await note(wanted, { platformId: result.value.id, secret: result.value.secret });
      log.info({ agent: agent.name, url: wanted.url }, "platform webhook registered");
      return true;
    }
    await failed(agent, "platform webhook registration failed", result);
    if (result.kind !== "unknown") await deps.db.tx((q) => dropRegistration(q, wanted));
    return false;
  }

  /** Checks whether the platform has the webhook. The id is empty when the platform does not report it. */
  async function look(agent: AskedAgent, url: string, signal: AbortSignal): Promise<RegistrationState> {
    if (!(await turn(2, signal))) return "not now";
    const described = await agent.client.describe(bounded(signal));
    const listed = await agent.client.registered(bounded(signal));
    for (const result of [described, listed]) {
      // A platform without the list endpoint responds 404 or 405, which is a valid result.
      if (result.kind === "ok" || (result === listed && isFinal(listed))) continue;
      await failed(agent, "platform webhook look-up failed", result);
      return "not now";
    }
    const found = listed.kind === "ok" ? listed.value.find((one) => isWanted(one, url)) : undefined;
    if (found) return { id: found.id };
    const shown = described.kind === "ok" && described.value.webhooks?.some((one) => isWanted(one, url));
    return shown ? { id: "" } : "absent";
  }

  /** Removes a webhook with an earlier URL or key. Returns false when it may still be registered. */
  async function remove(agent: AskedAgent, row: RegistrationRow, signal: AbortSignal): Promise<boolean> {
    if (row.platform_id === null && row.asked_ago < registerSettled) return false;
    const known = row.platform_id ? { id: row.platform_id } : await look(agent, row.url, signal);
    if (known === "not now") return false;
    if (known !== "absent" && !(await unregister(agent, row, known.id, signal))) return false;
    await deps.db.tx((q) => dropRegistration(q, row));
    return true;
  }

  async function unregister(
    agent: AskedAgent,
    { url }: Registration,
    id: string,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (id === "") {
      log.error(
        { agent: agent.name, url },
        "outdated platform webhook not removed: the platform reports no id for it, delete it there",
      );
      return false;
    }
    if (!(await turn(1, signal))) return false;
    const result = await agent.client.unregister(id, bounded(signal));
    if (result.kind === "ok" || result.kind === "missing") return true;
    await failed(agent, "outdated platform webhook not removed", result);
    return false;
  }

  async function failed(
    agent: AskedAgent,
    what: string,
    result: Exclude<CallResult<unknown>, { kind: "ok" }>,
  ): Promise<void> {
    log.error({ agent: agent.name, result: result.kind, reason: result.reason }, what);
    if (result.kind !== "deferred" || !result.limited) return;
    await deps.db.tx((q) => deps.rate.penalise(q, result.retryAfterMs ?? rateWindow));
  }

  /** Waits for the shared rate limit. Returns false when no calls were granted or the signal aborted. */
  async function turn(calls: number, signal: AbortSignal): Promise<boolean> {
    const { taken, waitMs } = await deps.rate.take(calls, deps.timing.rate.backgroundWait);
    await clock.sleep(waitMs, signal);
    return taken && !signal.aborted;
  }

  return {
    async run(signal) {
      let failures = 0;
      while (!signal.aborted) {
        nudged = false;
        const woken = new AbortController();
        nudge = () => woken.abort();
        const all = await round(signal).catch((error: unknown) => {
          log.error({ err: error }, "platform webhook registration failed");
          return "failed" as const;
        });
        failures = all === "failed" ? failures + 1 : 0;
        if (!nudged)
          await clock.sleep(
            pauseAfter(all, failures, deps.timing.platformWebhook),
            AbortSignal.any([signal, woken.signal]),
          );
      }
    },
    wake() {
      nudged = true;
      nudge();
    },
  };
}

type RegistrationState = "absent" | "not now" | { readonly id: string };
type Hook = NonNullable<Policy["platformWebhook"]>;

const trigger = "each_message";

/** Returns the milliseconds until the next round. `unread`: an agent's settings were not read yet. */
function pauseAfter(
  all: "whole" | "unread" | "failed",
  failures: number,
  { registerUnread, registerRetry, registerLongest }: Timing["platformWebhook"],
): number {
  if (all === "whole") return registerLongest;
  if (all === "unread") return registerUnread;
  return jitter(Math.min(registerRetry * 2 ** (failures - 1), registerLongest));
}

/** True for our trigger at that URL. */
const isWanted = (one: Pick<ListedWebhook, "url" | "trigger">, url: string): boolean =>
  one.url === url && one.trigger === trigger;

/** True when the platform has answered and a retry changes nothing. */
const isFinal = (result: CallResult<unknown>): boolean =>
  result.kind === "refused" ||
  result.kind === "missing" ||
  (result.kind === "deferred" && /^HTTP 40[45]\b/.test(result.reason));

/** Returns null until the agent's settings were read: another agent under the same name needs its own
 *  webhook. */
function wantedOf(
  agent: { readonly name: string; settings(): Pick<AgentSettings, "agentId"> | null },
  publicUrl: string,
  hook: Pick<NonNullable<Policy["platformWebhook"]>, "header" | "key">,
): Registration | null {
  const id = agent.settings()?.agentId;
  if (id === undefined) return null;
  const digest = createHash("sha256")
    .update(JSON.stringify([id, hook.header.toLowerCase(), hook.key]))
    .digest("hex");
  const url = `${publicUrl.replace(/\/$/, "")}/platform/${encodeURIComponent(agent.name)}/message`;
  return { agent: agent.name, trigger, url, digest };
}
