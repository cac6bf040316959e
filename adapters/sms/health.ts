// Combines the states of several sides into one channel status. It is reported to the core only when it
// changes.

import type { Channel, ChannelStatus } from "bridgehead/contract";

/** `account`: the provider's errors about our account and senders when we send. `address`: whether the
 *  provider can reach us. */
export type Side = "list" | "account" | "address";

export interface Health {
  set(side: Side, status: ChannelStatus): void;
  of(side: Side): ChannelStatus | null;
}

const weight = { unauthorized: 3, degraded: 2, connecting: 1, ready: 0 } as const;

/** Reports the worst state of all sides. A side that never reported is ignored. */
export function health(channel: Pick<Channel, "report">): Health {
  const sides = new Map<Side, ChannelStatus>();
  let told = "";
  return {
    of: (side) => sides.get(side) ?? null,
    set(side, status) {
      sides.set(side, status);
      const worst = [...sides.values()].reduce((a, b) => (weight[b.state] > weight[a.state] ? b : a));
      const text = JSON.stringify(worst);
      if (text === told) return;
      told = text;
      channel.report(worst);
    },
  };
}
