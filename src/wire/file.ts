// Agent files, the documents that an agent answers from (External API 4.3; fields from the public
// description).

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
