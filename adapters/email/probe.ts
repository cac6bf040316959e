// Logs in on both sides and looks around: for `check --online`. Sends nothing, changes nothing.

import type { Channel, ChannelStatus } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import { statusOf } from "./failure.ts";
import { type ConnectionOptions, openConnection } from "./imap/connection.ts";
import type { Lines } from "./smtp/connection.ts";

/** The first side that fails speaks for the channel. */
export async function probe(
  channel: Channel,
  config: EmailConfig,
  imap: ConnectionOptions,
  lines: Lines,
  signal: AbortSignal,
): Promise<ChannelStatus> {
  try {
    const { client } = await openConnection(imap, signal);
    try {
      const box = await client.mailboxOpen(config.imap.mailbox, { readOnly: true });
      const capabilities = ["IDLE", "MOVE", "UIDPLUS"].filter((name) => client.capabilities.has(name));
      channel.log.info(
        { mails: box.exists, capabilities: capabilities.join(" ") },
        "the mailbox can be read",
      );
    } finally {
      client.close();
    }
  } catch (error) {
    return onSide("imap", statusOf(error, 1));
  }
  try {
    const line = await lines.take(signal, true);
    lines.giveBack(line, false);
  } catch (error) {
    return onSide("smtp", statusOf(error, 1));
  }
  return { state: "ready" };
}

function onSide(side: string, status: ReturnType<typeof statusOf>): ChannelStatus {
  return { ...status, reason: `${side}: ${status.reason}` };
}
