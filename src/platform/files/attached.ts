// Finds the files that a message names, by the name that the upload returned, and reads them for the
// agent's model.

import type * as z from "zod";
import type { sendRequest } from "../../wire/conversation.ts";
import type { FailureDetail } from "../../wire/record.ts";
import type { MessageFileRow } from "../store/message-files.ts";
import type { PlatformStore } from "../store/store.ts";
import type { DocumentReader } from "./reading.ts";

type Named = NonNullable<z.output<typeof sendRequest>["files"]>;

/** Maximum number of files of one message. */
const filesAtMost = 10;
/** Maximum characters of one file, and of all files of a message. */
const eachLength = 20_000;
const allLength = 60_000;

/** Returns the name of a file in messages. */
export function storagePath({ conversation_id, id, name }: Omit<MessageFileRow, "size">): string {
  return `conversations/${conversation_id}/${id}/${name}`;
}

/** Returns the files that a message of the conversation names, or the problems with them. */
export function findAttached(
  store: PlatformStore,
  conversationId: string,
  named: Named,
): { readonly files: MessageFileRow[]; readonly problems: FailureDetail[] } {
  if (named.length > filesAtMost)
    return {
      files: [],
      problems: [{ path: "files", message: `a message has at most ${filesAtMost} files` }],
    };
  const known = new Map(
    named.length === 0
      ? []
      : store.messageFiles.ofConversation(conversationId).map((file) => [storagePath(file), file]),
  );
  const files: MessageFileRow[] = [];
  const problems: FailureDetail[] = [];
  for (const [index, { storagePath: at }] of named.entries()) {
    const file = known.get(at);
    const why = problemOf(file);
    if (why !== null) problems.push({ path: `files.${index}.storagePath`, message: why });
    else if (file && !files.includes(file)) files.push(file);
  }
  return { files, problems };
}

function problemOf(file: MessageFileRow | undefined): string | null {
  if (!file) return "there is no such file in this conversation";
  if (file.size === null) return "nothing was uploaded there";
  return file.message_id === null ? null : "another message has it";
}

/** Returns the text of the files for a model. A file that cannot be read is named with the reason. */
export async function readAttached(
  store: PlatformStore,
  documents: DocumentReader,
  messageId: string,
  signal: AbortSignal,
): Promise<string[]> {
  const texts: string[] = [];
  let left = allLength;
  for (const { id, name } of store.messageFiles.ofMessage(messageId)) {
    if (left <= 0) break;
    const read = await documents.read(name, () => store.messageFiles.bytes(id), signal);
    if (read.kind === "stopped") break;
    const text =
      read.kind === "read" ? read.text.slice(0, Math.min(eachLength, left)) : `(${whyUnread(read)})`;
    left -= text.length;
    texts.push(`The person sent the file "${name}":\n${text}`);
  }
  return texts;
}

const whyUnread = (read: { readonly kind: "busy" } | { readonly kind: "failed"; readonly reason: string }) =>
  read.kind === "failed" ? read.reason : "it was not read: too many documents are being read at the moment";
