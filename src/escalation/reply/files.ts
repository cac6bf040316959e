// Decides which files of a responder's reply go to the customer, and explains the others to the responder.

import type { Instructions } from "../../domain/instructions.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { AttachedFile, ReadyFile } from "../../store/tables/files.ts";

export interface SelectedFiles {
  readonly files: readonly ReadyFile[];
  /** Text for the responder: each file that is not sent, by name, and the reason. Null when all files are sent. */
  readonly left: string | null;
}

/** The core's limit for one file, in bytes. Applies to all files together when the adapter has no limit of its own. */
const mostBytes = 25 * 1024 * 1024;
const mostNamed = 15;

/** Returns the files to send. A reply with only "ok" and a note send no files, because the file may not
 *  be meant for the customer. A bare escalation number only names the escalation, so its files are sent. */
export function selectFiles(
  offered: readonly AttachedFile[],
  words: Instructions,
  { conversation, channel }: { readonly conversation: string | null; readonly channel: string },
  line: ChannelRuntime | undefined,
): SelectedFiles {
  // Mail programs attach the mail that is answered. A responder who sends no text needs no message about
  // that attachment.
  const sendsNothing = words.note !== "" || (words.acknowledge && !words.bare);
  const attached = sendsNothing ? offered.filter((file) => !isMail(file)) : offered;
  if (attached.length === 0) return { files: [], left: null };
  if (words.note !== "") return nothing(attached, "what comes with a #note stays among us");
  if (conversation === null) return nothing(attached, "it is about a channel, so there is none");
  if (sendsNothing) return nothing(attached, "a word that takes it sends nothing; to send files, leave it out");
  if (!line?.outbound) return nothing(attached, `channel ${channel} cannot send now`);
  if (!line.traits.attachments) return nothing(attached, `channel ${channel} carries no files`);
  const most = line.outbound.attachmentLimit ?? mostBytes;
  const files: ReadyFile[] = [];
  const left: string[] = [];
  let total = 0;
  for (const file of attached) {
    const { blob, size } = file;
    if (isMail(file)) left.push(`${named(file)}: a mail may be ours, or carry what we have said among us`);
    else if (blob === null || size === null) left.push(`${named(file)}: ${file.reason ?? "it is not there yet"}`);
    else if (total + size > most) left.push(`${named(file)}: more than ${readable(most)} together`);
    else {
      files.push({ ...file, blob, size });
      total += size;
    }
  }
  return { files, left: left.length === 0 ? null : notSent(left) };
}

/** Represents files in a text by their names, one per line. */
export const namesOf = (files: readonly { readonly name: string }[]): string =>
  files.map(({ name }) => `[${oneLine(name)}]`).join("\n");

/** True for an attached mail. Some programs attach the answered mail, which is our notification with all
 *  its content. */
const isMail = ({ media_type, name }: AttachedFile): boolean =>
  /^(?:message\/.*|application\/vnd\.ms-outlook)$/i.test(media_type) || /\.(?:eml|emlx|msg|oft|mht)$/i.test(name);

const nothing = (attached: readonly AttachedFile[], why: string): SelectedFiles => ({
  files: [],
  left: notSent([`${listed(attached.map(named))}: ${why}`]),
});

const notSent = (what: readonly string[]): string => `Not sent to the customer: ${listed(what, "; ")}.`;

const listed = (what: readonly string[], between = ", "): string =>
  [...what.slice(0, mostNamed), ...(what.length > mostNamed ? ["..."] : [])].join(between);

const oneLine = (text: string): string =>
  text
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim()
    .slice(0, 200)
    .toWellFormed();

const named = ({ name }: AttachedFile): string => `"${oneLine(name)}"`;

const readable = (bytes: number): string =>
  bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${Math.round(bytes / 100_000) / 10} MB`;
