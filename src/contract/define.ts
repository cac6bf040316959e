// Building blocks that adapters call: for their definition, their capacity and health, time
// limits and permanent errors.

import type * as z from "zod";
import type { Channel, Clock, DurationTable } from "./channel.ts";
import type { AdapterDefinition, Outbound, Remark, Traits } from "./contract.ts";
import type { Json } from "./ids.ts";
import type { ChannelStatus } from "./outcomes.ts";

/** Adds the types of an adapter's definition. Returns its argument unchanged. */
export function defineAdapter<const C extends z.ZodType, D extends Json>(
  definition: AdapterDefinition<C, D>,
): AdapterDefinition<C, D> {
  return definition;
}

/** A trait that the core does not know, and the form that it must have. */
export interface WrongTrait {
  readonly trait: keyof Traits;
  readonly given: unknown;
  readonly form: string;
}

/** Returns the traits of an author without types that the core does not know. The loader rejects such an adapter, and the
 *  conformance suite reports it. */
export function wrongTraits(traits: { readonly [trait in keyof Traits]?: unknown }): readonly WrongTrait[] {
  const { attachments, conversations, platform } = traits;
  const isName = typeof platform === "string" && /^[a-z][a-z0-9_]*$/.test(platform);
  const all = [
    { isRight: typeof attachments === "boolean", trait: "attachments", form: "true or false" },
    {
      isRight: conversations === "thread" || conversations === "person",
      trait: "conversations",
      form: '"thread" or "person"',
    },
    {
      isRight: platform === null || isName,
      trait: "platform",
      form: "null, or a name of lower-case letters, digits and _",
    },
  ] as const;
  return all.filter(({ isRight }) => !isRight).map(({ trait, form }) => ({ trait, given: traits[trait], form }));
}

/** The functions of the parts of an adapter. Those that end with `?` may be absent. */
const functions = {
  adapter: ["open?", "close?", "probe?", "examine?"],
  inbound: ["run"],
  outbound: ["compose", "send", "prepare?", "capacity?", "reconcile?", "recipients?"],
  http: ["handle"],
  socket: ["authorize", "serve"],
} as const;

/** Returns what is wrong with the parts of an adapter that an author without types has made: `outbound.send is undefined: it
 *  must be a function`. Null when the core can call all of them. The core does not start such a channel, and the conformance
 *  suite reports it. */
export function wrongPart(adapter: object): string | null {
  const { inbound, outbound, routes } = adapter as { readonly [part: string]: unknown };
  const [name] = Object.keys(adapter);
  if (inbound === undefined && outbound === undefined && routes === undefined && name !== undefined)
    return `it has ${name}, but no inbound, no outbound and no routes`;
  return (
    wrongFunction(adapter, "", functions.adapter) ??
    (inbound === undefined ? null : wrongFunction(inbound, "inbound.", functions.inbound)) ??
    (outbound === undefined ? null : wrongFunction(outbound, "outbound.", functions.outbound)) ??
    (routes === undefined ? null : wrongRoute(routes))
  );
}

function wrongFunction(part: unknown, path: string, names: readonly string[]): string | null {
  const values = Object(part) as { readonly [name: string]: unknown };
  for (const name of names.map((one) => one.replace("?", ""))) {
    const value = values[name];
    if (typeof value === "function" || (value === undefined && !names.includes(name))) continue;
    return `${path}${name} is ${value === null ? "null" : typeof value}: it must be a function`;
  }
  return null;
}

function wrongRoute(routes: unknown): string | null {
  if (!Array.isArray(routes)) return "routes is no array";
  const seen = new Set<string>();
  for (const [at, route] of routes.entries()) {
    const { kind, method, path } = Object(route) as { readonly [name: string]: unknown };
    const wrong = (name: string, value: unknown, form: string) =>
      `routes[${at}].${name} is ${JSON.stringify(value)}: it must be ${form}`;
    if (kind !== "http" && kind !== "socket") return wrong("kind", kind, '"http" or "socket"');
    if (kind === "http" && method !== "GET" && method !== "POST") return wrong("method", method, '"GET" or "POST"');
    if (typeof path !== "string" || !path.startsWith("/")) return wrong("path", path, 'a text such as "/inbound"');
    const lacking = wrongFunction(route, `routes[${at}].`, functions[kind]);
    if (lacking !== null) return lacking;
    const name = `${kind} ${String(method)} ${path}`;
    if (seen.has(name)) return `routes[${at}] repeats the path ${path}`;
    seen.add(name);
  }
  return null;
}

/** Returns `send` together with a `capacity` that counts its running calls. `limit` is the number of drafts
 *  that can be sent at once: connections of a pool, slots of a window; a function when the number changes. Calls
 *  beyond it are not rejected; the pool makes them wait. */
export function countedSends<Draft extends Json>(
  limit: number | (() => number),
  send: Outbound<Draft>["send"],
): { readonly send: Outbound<Draft>["send"]; capacity(): number } {
  let running = 0;
  return {
    async send(draft, attempt) {
      running += 1;
      try {
        return await send(draft, attempt);
      } finally {
        running -= 1;
      }
    },
    capacity: () => Math.max(0, (typeof limit === "number" ? limit : limit()) - running),
  };
}

const severity = { unauthorized: 3, degraded: 2, connecting: 1, ready: 0 } as const;

/** The health of a channel that depends on several sides, such as IMAP and SMTP. Create one per channel, and call `set`
 *  whenever a side works or fails. The worst status of all sides is reported to the core when it changes; of equal ones
 *  that of the side that was set first. A side that was never set does not count. */
export class Health {
  readonly #channel: Pick<Channel, "report">;
  readonly #sides = new Map<string, ChannelStatus>();
  #reported = "";

  constructor(channel: Pick<Channel, "report">) {
    this.#channel = channel;
  }

  /** Returns the last status of a side; null when it was never set. */
  of(side: string): ChannelStatus | null {
    return this.#sides.get(side) ?? null;
  }

  /** Sets the status of a side. Never throws. */
  set(side: string, status: ChannelStatus): void {
    this.#sides.set(side, status);
    const worst = [...this.#sides.values()].reduce((a, b) => (severity[b.state] > severity[a.state] ? b : a));
    const text = JSON.stringify(worst);
    if (text === this.#reported) return;
    this.#reported = text;
    this.#channel.report(worst);
  }
}

/** Returns the adapter's durations: its `standard` table, with the overrides of the channel. Call it once in `create`, and pass
 *  the result down. Throws an error for an override that the table does not have. */
export function timingOf<Table extends DurationTable>(
  { timing = {} }: Pick<Channel, "timing">,
  standard: Table,
): Table {
  const unknown = Object.keys(timing).find((name) => !Object.hasOwn(standard, name));
  if (unknown !== undefined) throw new Error(`reading the timing of a channel: its adapter has no duration ${unknown}`);
  return { ...standard, ...timing };
}

/** One object for all timeouts: creating a DOMException captures a stack. */
const timeIsUp = new DOMException("the time is up", "TimeoutError");

/** Runs `work` with a signal that aborts with `parent`, or after `ms` milliseconds. Unlike `AbortSignal.timeout`, the
 *  timer ends with the work: thousands of pending timeouts cost more memory than the work itself. */
export async function withTimeout<T>(
  clock: Pick<Clock, "sleep">,
  parent: AbortSignal,
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController();
  const over = new AbortController();
  const follow = () => own.abort(parent.reason);
  if (parent.aborted) follow();
  parent.addEventListener("abort", follow, { once: true });
  void clock.sleep(ms, over.signal).then(() => {
    if (!over.signal.aborted) own.abort(timeIsUp);
  });
  try {
    return await work(own.signal);
  } finally {
    parent.removeEventListener("abort", follow);
    over.abort(null);
  }
}

/** A permanent error. When `Adapter.open` throws it, the core records the failure and does not retry. It is marked by
 *  a property, because every copy of this package has its own class. */
export interface FinalError extends Error {
  readonly final: true;
}

export function finalError(message: string, options?: ErrorOptions): FinalError {
  return Object.assign(new Error(message, options), { final: true as const });
}

export function isFinal(error: unknown): error is FinalError {
  return error instanceof Error && "final" in error && error.final === true;
}

/** Returns an error about a key of the channel's block, for `AdapterDefinition.review`. */
export const configError = (path: Remark["path"], message: string, fix: string): Remark => ({
  severity: "error",
  path,
  message,
  fix,
});
