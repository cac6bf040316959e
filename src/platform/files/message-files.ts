// Finds the files that a message names, by the name that the upload returned, and reads them for the agent's model.

import { createHmac } from "node:crypto";
import { sameText } from "bridgehead/contract";
import type * as z from "zod";
import type { sendRequest } from "../../wire/conversation.ts";
import type { FailureDetail } from "../../wire/record.ts";
import type { MessageFileRow } from "../store/messages.ts";
import type { PlatformStore } from "../store/store.ts";
import type { DocumentReader } from "./reading.ts";

type Named = NonNullable<z.output<typeof sendRequest>["files"]>;

const filesAtMost = 10;
/** Maximum characters of one file, and of all files of a message. */
const eachLength = 20_000;
const allLength = 60_000;

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
    const text = read.kind === "read" ? read.text.slice(0, Math.min(eachLength, left)) : `(${whyUnread(read)})`;
    left -= text.length;
    texts.push(`The person sent the file "${name}":\n${text}`);
  }
  return texts;
}

const whyUnread = (read: { readonly kind: "busy" } | { readonly kind: "failed"; readonly reason: string }) =>
  read.kind === "failed" ? read.reason : "it was not read: too many documents are being read at the moment";

// Signed URLs, which give access to one file for a limited time without a key. Uploads and downloads use them.

const goodForMs = 15 * 60_000;

export type Purpose = "upload" | "download";

/** Returns the path and query of a URL that is valid for 15 minutes from now. */
export function signedPath(secret: Uint8Array, purpose: Purpose, fileId: string, now: number): string {
  const expires = now + goodForMs;
  const signature = sign(secret, purpose, fileId, expires);
  return `/message-files/${fileId}/${purpose}?${new URLSearchParams({ expires: String(expires), signature }).toString()}`;
}

/** Verifies the signature, the purpose and the expiry of a URL. */
export function isSigned(
  secret: Uint8Array,
  purpose: Purpose,
  fileId: string,
  { expires, signature = "" }: { readonly [name: string]: string },
  now: number,
): boolean {
  const until = Number(expires);
  return Number.isSafeInteger(until) && until >= now && sameText(sign(secret, purpose, fileId, until), signature);
}

function sign(secret: Uint8Array, purpose: Purpose, fileId: string, expires: number): string {
  return createHmac("sha256", secret)
    .update(JSON.stringify([purpose, fileId, expires]))
    .digest("base64url");
}

// Formats the names of files, for storage and for downloads.

/** Returns the last part of a path, without control characters. */
export function fileName(given: string): string {
  // oxlint-disable-next-line no-control-regex
  const name = (given.split(/[\\/]/).at(-1) ?? "").replace(/[\u0000-\u001f\u007f]/g, "").trim();
  // The cut can leave a lone surrogate at the end.
  return name.slice(0, 255).toWellFormed() || "file";
}

/** Returns the Content-Disposition header that makes a browser save the file under any name (RFC 6266, RFC 8187). */
export function savedAs(name: string): string {
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename*=UTF-8''${encoded}`;
}
