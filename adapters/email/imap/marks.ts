// Marks on handled mail, for people who look into the mailbox. They say nothing to us: what is handled is what the
// core has committed. So a mark that fails is logged once and forgotten.

import { channel as point } from "node:diagnostics_channel";
import type { Log } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { EmailConfig } from "../config.ts";
import { brief } from "../failure.ts";
import { openMailbox, uidSet } from "./fetch.ts";

/** `{ phase: "before" | "after", uids }` around each command that marks. */
const points = point("bridgehead:email.mark");

export type Mark = (client: ImapFlow, uids: readonly number[]) => Promise<void>;

/** One command marks a whole batch. The returned promise never rejects. */
export function marker(settings: EmailConfig["mark"], log: Log): Mark {
  let complained = false;
  const complain = (reason: string) => {
    if (!complained) log.warn({ with: settings.with, reason }, "handled mail could not be marked");
    complained = true;
  };
  return async (client, uids) => {
    if (settings.with === "none" || uids.length === 0) return;
    if (points.hasSubscribers) points.publish({ phase: "before", uids });
    try {
      const done = await (settings.with === "move" ? move : flag)(client, uids, settings);
      if (!done) complain("the server did not do it");
    } catch (error) {
      complain(brief(error));
    }
    if (points.hasSubscribers) points.publish({ phase: "after", uids });
  };
}

/** Only ever adds: imapflow 2.1 clears all flags when a change comes down to nothing. */
async function flag(
  client: ImapFlow,
  uids: readonly number[],
  settings: EmailConfig["mark"],
): Promise<boolean> {
  const wanted = settings.with === "keyword" ? settings.keyword : "\\Seen";
  const permitted = openMailbox(client).permanentFlags;
  if (permitted && !permitted.has(wanted) && !(settings.with === "keyword" && permitted.has("\\*")))
    return false;
  return client.messageFlagsAdd(uidSet(uids), [wanted], { uid: true, silent: true });
}

/** Without MOVE or UIDPLUS a move could expunge what others deleted; then the mail stays. */
async function move(
  client: ImapFlow,
  uids: readonly number[],
  settings: EmailConfig["mark"],
): Promise<boolean> {
  if (!client.capabilities.has("MOVE") && !client.capabilities.has("UIDPLUS")) return false;
  return Boolean(await client.messageMove(uidSet(uids), settings.folder, { uid: true }));
}
