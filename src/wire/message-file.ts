// Files of messages (from the public description): a URL for the upload and a URL for the download. A
// message then names the file by its `storagePath`.

import * as z from "zod";
import { record } from "./record.ts";

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
