// Marks on handled mail: a flag or keyword for people who look into the mailbox, and a keyword that names the channel and
// its store. What is handled is what the core has committed, so a mark that fails is logged once and forgotten. Marks
// are read only to recognize a store that is behind the mailbox, and other daemons on it (traces.ts).

import { channel as point } from "node:diagnostics_channel";
import type { Log } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { EmailConfig } from "../config.ts";
import { brief } from "../failure.ts";
import { openMailbox, uidSet } from "./fetch.ts";

/** `{ phase: "before" | "after", uids }` around each command that marks. */
const points = point("bridgehead:email.mark");

/** `own`: the channel's mark (`ChannelIdentity.mark`). */
export type Mark = (client: ImapFlow, uids: readonly number[], own: string) => Promise<void>;

/** One command marks a whole batch. The returned promise never rejects. */
export function marker(settings: EmailConfig["mark"], log: Log): Mark {
  let complained = false;
  const complain = (reason: string) => {
    if (!complained) log.warn({ with: settings.with, reason }, "handled mail could not be marked");
    complained = true;
  };
  return async (client, uids, own) => {
    if (settings.with === "none" || uids.length === 0) return;
    if (points.hasSubscribers) points.publish({ phase: "before", uids });
    try {
      const done =
        settings.with === "move" ? move(client, uids, settings) : flag(client, uids, settings, own);
      if (!(await done)) complain("the server did not do it");
    } catch (error) {
      complain(brief(error));
    }
    if (points.hasSubscribers) points.publish({ phase: "after", uids });
  };
}

/** The keyword that names the channel which handled a mail, beside the one that says that it was handled. */
export const keywordOf = (keyword: string, mark: string): string => `${keyword}-${mark}`;

/** Whose keywords are on a mail: the marks behind the dash; an empty one for the bare keyword alone. */
export function marksOn(keywords: readonly string[], keyword: string): string[] {
  const prefix = keywordOf(keyword, "").toLowerCase();
  const lower = keywords.map((one) => one.toLowerCase());
  const marks = lower.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
  return marks.length === 0 && lower.includes(keyword.toLowerCase()) ? [""] : marks;
}

/** Only ever adds. The channel's own keyword goes with the flag people look at, where the server keeps keywords. */
async function flag(
  client: ImapFlow,
  uids: readonly number[],
  settings: EmailConfig["mark"],
  own: string,
): Promise<boolean> {
  const wanted = settings.with === "keyword" ? settings.keyword : "\\Seen";
  const permitted = openMailbox(client).permanentFlags;
  const keeps = (name: string) =>
    !permitted || permitted.has(name) || (!name.startsWith("\\") && permitted.has("\\*"));
  const flags = [wanted, keywordOf(settings.keyword, own)].filter(keeps);
  if (!flags.includes(wanted)) return false;
  return client.messageFlagsAdd(uidSet(uids), flags, { uid: true, silent: true });
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
