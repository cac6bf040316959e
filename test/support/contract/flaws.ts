// Adapters with one planted flaw each, and the rules of the suite that must catch it: these and no others.

import type { Adapter, AdapterDefinition, Attempt, Channel, SendOutcome } from "bridgehead/contract";
import type { Harness } from "bridgehead/contract/testing";

export interface Flaw {
  /** What the adapter does wrong. */
  readonly what: string;
  readonly definition: AdapterDefinition;
  readonly harness: Harness;
  /** Every check that fails, by name, and what its message says. */
  readonly caught: { readonly [check: string]: RegExp };
}

type Maker = AdapterDefinition["create"];

/** `base` with its `create` replaced by what `change` makes of it. */
export const making = (base: AdapterDefinition, change: (create: Maker) => Maker): AdapterDefinition => ({
  ...base,
  create: change((channel, config) => base.create(channel, config)),
});

/** `base` with other parts in place of some of its adapter's. */
export const altered = (
  base: AdapterDefinition,
  change: (adapter: Adapter, channel: Channel) => Partial<Adapter>,
): AdapterDefinition =>
  making(base, (create) => (channel, config) => {
    const adapter = create(channel, config);
    return { ...adapter, ...change(adapter, channel) };
  });

/** `base` talking to a channel that is not quite the one it was given. */
export const misled = (
  base: AdapterDefinition,
  change: (channel: Channel) => Partial<Channel>,
): AdapterDefinition =>
  making(base, (create) => (channel, config) => create({ ...methods(channel), ...change(channel) }, config));

/** The channel's members as a plain object that can be spread. */
export const methods = (channel: Channel): Channel => ({
  id: channel.id,
  log: channel.log,
  clock: channel.clock,
  url: (path) => channel.url(path),
  accept: (events, cursor) => channel.accept(events, cursor),
  addresses: () => channel.addresses(),
  known: (ids) => channel.known(ids),
  session: (id) => channel.session(id),
  agent: () => channel.agent(),
  identity: () => channel.identity(),
  secrets: channel.secrets,
  report: (status) => channel.report(status),
  warn: (code, sentence) => channel.warn(code, sentence),
});

type Send = (draft: never, attempt: Attempt) => Promise<SendOutcome>;

/** `base` whose `send` goes through `change`. */
export const sending = (
  base: AdapterDefinition,
  change: (send: Send, attempt: Attempt, draft: never) => Promise<SendOutcome>,
): AdapterDefinition =>
  altered(base, ({ outbound }) => ({
    outbound: {
      ...required(outbound),
      send: (draft, attempt) =>
        change((one, other) => required(outbound).send(one, other), attempt, draft as never),
    },
  }));

export function required<T>(part: T | undefined): T {
  if (part === undefined) throw new Error("the adapter to spoil lacks the part to spoil");
  return part;
}
