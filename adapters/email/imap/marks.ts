// Marks handled messages: with a flag or keyword for people who read the mailbox, and with a keyword that
// names the channel and its store. The commit in the core decides what is handled, so a failed mark is
// logged once and not retried. Marks are read only to recognize a store that is behind the mailbox, and
// other daemons on it (traces.ts).

import { channel as point } from "node:diagnostics_channel";
import type { Log } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { EmailConfig } from "../config.ts";
import { brief } from "../failure.ts";
import { openMailbox, uidSet } from "./fetch.ts";

/** Diagnostics channel: `{ phase: "before" | "after", uids }` around each command that marks. */
const points = point("bridgehead:email.mark");

/** `own`: the channel's mark (`ChannelIdentity.mark`). */
export type Mark = (client: ImapFlow, uids: readonly number[], own: string) => Promise<void>;

/** Marks a whole batch with one command. The returned promise never rejects. */
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

/** Returns the keyword that names the channel which handled a message. It is set in addition to the
 *  keyword for handled messages. */
export const keywordOf = (keyword: string, mark: string): string => `${keyword}-${mark}`;

/** Returns the marks in the keywords of a message: the text after the dash, or an empty string for the
 *  keyword without a mark. */
export function marksOn(keywords: readonly string[], keyword: string): string[] {
  const prefix = keywordOf(keyword, "").toLowerCase();
  const lower = keywords.map((one) => one.toLowerCase());
  const marks = lower.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
  return marks.length === 0 && lower.includes(keyword.toLowerCase()) ? [""] : marks;
}

/** Only adds flags. The channel's own keyword is set together with the visible flag, where the server
 *  stores keywords. */
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

/** Without MOVE or UIDPLUS a move could expunge messages that other clients deleted, so the message is
 *  not moved. */
async function move(
  client: ImapFlow,
  uids: readonly number[],
  settings: EmailConfig["mark"],
): Promise<boolean> {
  if (!client.capabilities.has("MOVE") && !client.capabilities.has("UIDPLUS")) return false;
  return Boolean(await client.messageMove(uidSet(uids), settings.folder, { uid: true }));
}
