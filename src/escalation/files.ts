// Files that a person attached to their answer: which of them go to the customer, and what the person is told of the others.

import type { Instructions } from "../domain/instructions.ts";
import type { Line } from "../pipeline/line.ts";
import type { MeantFile, ReadyFile } from "../store/files.ts";

export interface HandedOn {
  readonly files: readonly ReadyFile[];
  /** For the person: those that stay behind, each by its name, and why. Null when all go. */
  readonly left: string | null;
}

/** As much as the core keeps of one file; an adapter without a limit of its own carries no more. */
const mostBytes = 25 * 1024 * 1024;
const mostNamed = 15;

/** Of a mere "ok", and of what is kept among us, nothing goes on: the file may be none of the customer's. A bare number
 *  only says whose it is. */
export function handOn(
  offered: readonly MeantFile[],
  words: Instructions,
  { conversation, channel }: { readonly conversation: string | null; readonly channel: string },
  line: Line | undefined,
): HandedOn {
  // Programs attach what is answered: nobody need hear of that who sends nothing.
  const sendsNothing = words.note !== "" || (words.acknowledge && !words.bare);
  const attached = sendsNothing ? offered.filter((file) => !isMail(file)) : offered;
  if (attached.length === 0) return { files: [], left: null };
  if (words.note !== "") return nothing(attached, "what comes with a #note stays among us");
  if (conversation === null) return nothing(attached, "it is about a channel, so there is none");
  if (sendsNothing)
    return nothing(attached, "a word that takes it sends nothing; to send files, leave it out");
  if (!line?.outbound) return nothing(attached, `channel ${channel} cannot send now`);
  if (!line.traits.attachments) return nothing(attached, `channel ${channel} carries no files`);
  const most = line.outbound.attachmentLimit ?? mostBytes;
  const files: ReadyFile[] = [];
  const left: string[] = [];
  let total = 0;
  for (const file of attached) {
    const { blob, size } = file;
    if (isMail(file)) left.push(`${named(file)}: a mail may be ours, or carry what we have said among us`);
    else if (blob === null || size === null)
      left.push(`${named(file)}: ${file.reason ?? "it is not there yet"}`);
    else if (total + size > most) left.push(`${named(file)}: more than ${readable(most)} together`);
    else {
      files.push({ ...file, blob, size });
      total += size;
    }
  }
  return { files, left: left.length === 0 ? null : notSent(left) };
}

/** How files stand in a text: by their names. */
export const namesOf = (files: readonly { readonly name: string }[]): string =>
  files.map(({ name }) => `[${oneLine(name)}]`).join("\n");

/** Some programs attach the mail that is answered: our notice, with all that is in it. */
const isMail = ({ media_type, name }: MeantFile): boolean =>
  /^(?:message\/.*|application\/vnd\.ms-outlook)$/i.test(media_type) ||
  /\.(?:eml|emlx|msg|oft|mht)$/i.test(name);

const nothing = (attached: readonly MeantFile[], why: string): HandedOn => ({
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

const named = ({ name }: MeantFile): string => `"${oneLine(name)}"`;

const readable = (bytes: number): string =>
  bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${Math.round(bytes / 100_000) / 10} MB`;
