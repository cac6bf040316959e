// The sending side of an email channel.

import { type Channel, countedSends, type Outbound } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import type { Health } from "./health.ts";
import type { Identity } from "./identity.ts";
import { providerOf } from "./providers.ts";
import type { SentFolder } from "./sent/folder.ts";
import { type Filing, reconcile } from "./sent/reconcile.ts";
import { compose } from "./smtp/compose.ts";
import type { Lines } from "./smtp/connection.ts";
import { type Draft, readDraft } from "./smtp/draft.ts";
import { prepare } from "./smtp/rendering.ts";
import { sender } from "./smtp/send.ts";

export interface OutboundParts {
  readonly channel: Channel;
  readonly config: EmailConfig;
  readonly self: Identity;
  readonly health: Health;
  readonly lines: Lines;
  readonly folder: SentFolder;
}

/** Opens no connection until the first send. `close` ends the connections that sending has opened. */
export function outbound({ channel, config, self, health, lines, folder }: OutboundParts): {
  readonly outbound: Outbound<Draft>;
  close(signal: AbortSignal): Promise<void>;
} {
  const filing = filingOf(config);
  const send = sender({ lines, health, sent: copier(config, filing, folder) });
  return {
    outbound: {
      attachmentLimit: config.attachments.max_sent_bytes,
      prepare: (markdown, signal) => prepare(channel.clock, markdown, signal),
      compose: (reply) => compose(config, self, reply),
      ...countedSends<Draft>(lines.connections, (draft, attempt) => send(readDraft(draft), attempt)),
      recipients: (draft) => {
        const { to, cc } = readDraft(draft);
        return [...to, ...cc].map(({ address }) => address);
      },
      reconcile: (draft, attempt, signal) =>
        reconcile(folder, filing, channel.clock, readDraft(draft), attempt, signal),
    },
    async close(signal) {
      lines.close();
      await folder.close(signal);
    },
  };
}

/** Returns how the provider files sent mail, from the configuration or from the provider table. */
function filingOf(config: EmailConfig): Filing {
  const known = providerOf(config.smtp.host);
  const said = config.provider_files_sent;
  if (said === "auto") return { byProvider: known.filesSent, keepsMessageId: known.keepsMessageId };
  return { byProvider: said, keepsMessageId: known.keepsMessageId };
}

function copier(
  config: EmailConfig,
  filing: Filing,
  folder: SentFolder,
): (draft: Draft, bytes: Buffer) => void {
  // A folder that the configuration names gets copies even when the provider files its own copies
  // elsewhere.
  const wanted = config.sent_folder === "auto" ? !filing.byProvider : config.sent_folder !== "none";
  return (draft, bytes) => {
    if (wanted) folder.file(draft.messageId, bytes);
  };
}
