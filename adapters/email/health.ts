// Combines the states of the IMAP and SMTP sides into one channel status. Reports to the core only when the
// status changes.

import type { Channel, ChannelStatus } from "bridgehead/contract";

type Side = "imap" | "smtp";

export interface Health {
  set(side: Side, status: ChannelStatus): void;
  of(side: Side): ChannelStatus | null;
}

const weight = { unauthorized: 3, degraded: 2, connecting: 1, ready: 0 } as const;

/** Reports the worse status of both sides. A side that never reported counts as well. */
export function health(channel: Channel): Health {
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
