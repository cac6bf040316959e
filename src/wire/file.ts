// Agent files, the documents that an agent answers from (External API 4.3; fields from the public
// description). Files of messages: a URL for the upload and a URL for the download; a message then names the file
// by its `storagePath`.

import * as z from "zod";
import { record } from "./record.ts";

/** `vectorStoreUploadStatus`: null means not added to the agent; `failed` leaves
 *  `isUploadedToVectorStore` null. `vectorStoreUploadError`: the reason of the failure. Bridgehead's own
 *  platform returns it; the interface defines no such field. */
export const agentFile = record(
  "agent file",
  { id: z.string() },
  { fileName: z.string(), url: z.string(), createdAt: z.string() },
  {
    vectorStoreFileId: z.string(),
    isUploadedToVectorStore: z.boolean().nullable(),
    vectorStoreUploadStatus: z.enum(["processing", "done", "failed"]).nullable(),
    vectorStoreUploadError: z.string().nullable(),
    uploadedToVectorStoreAt: z.string(),
  },
);

/** DELETE /external/agent-files. */
export const deleteFilesRequest = z.looseObject({ fileIds: z.array(z.uuid()).max(1000) });

/** A file in a message's list; `openAIFileId` is the id at the model's provider. */
export const messageFile = z.looseObject({
  id: z.string(),
  fileName: z.string(),
  openAIFileId: z.string(),
  size: z.number().nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
});

/** POST /external/conversations/{id}/message-files/upload-url. */
export const uploadUrlRequest = z.looseObject({
  fileName: z.string().min(1).max(1_000),
  contentType: z.string().min(1).max(255),
});

/** The URL accepts the file's bytes by PUT, without a key, for a limited time. */
export const uploadUrl = record("upload address", { signedUrl: z.string(), storagePath: z.string() }, {}, {});

/** The URL returns the file's bytes by GET, without a key, for a limited time. */
export const downloadUrl = record("download address", { signedUrl: z.string(), fileId: z.string() }, {}, {});
