// Files of a reply, stored as in the core.

import { createHash } from "node:crypto";
import { type Attempt, fileRef, type ReplyAttachment } from "../index.ts";

/** `Attempt.read` for a reply without files. */
export const noFiles: Attempt["read"] = (ref) => Promise.reject(new Error(`there is no file ${ref}`));

/** Returns the `attachments` of a reply with these files, and the function with which an attempt reads them. */
export function keptFiles(files: readonly { readonly name: string; readonly bytes: Uint8Array }[]): {
  readonly attachments: readonly ReplyAttachment[];
  readonly read: Attempt["read"];
} {
  const kept = new Map<string, Uint8Array>();
  const attachments = files.map(({ name, bytes }) => {
    const ref = createHash("sha256").update(bytes).digest("hex");
    kept.set(ref, bytes);
    return { name, mediaType: "application/octet-stream", size: bytes.byteLength, ref: fileRef(ref) };
  });
  const read: Attempt["read"] = async (ref) => kept.get(ref) ?? noFiles(ref);
  return { attachments, read };
}
