// The agent of a key (External API 2.4, 2.5), as GET /external/agents/by-api-key returns it, and records about an agent:
// - files, the documents that it answers from (4.3; fields from the public description)
// - files of messages: a URL for the upload and one for the download; a message then names the file by its `storagePath`
// - its usage in a period (2.7), and the query that selects the period and the user (4.2)
// - past escalations. This record is Bridgehead's own: the interface only defines their configuration (2.6, ESCALATION).

import * as z from "zod";
import { instant, record } from "./record.ts";
import { servedSkill, skill } from "./skill.ts";

export const reasoningEfforts = ["low", "medium", "high", "xhigh", "minimal", "none", "max"] as const;
export const reasoningModes = ["standard", "pro"] as const;

const suffixes = `4.1 4.1-nano 4.1-mini 3.5-turbo 5-nano 5 5-mini 5.1 5.2 5.4 5.4-mini 5.4-nano 5.5 5.6 5.6-terra
  5.6-luna`.split(/\s+/);

/** The seventeen models of the interface. The real family name is a product name; the interface uses a
 *  placeholder, which stands for any name here. */
export const listedModel = new RegExp(`^(?:o3-mini|.+-(?:${suffixes.join("|").replaceAll(".", "\\.")}))$`);

/** The value returned for an agent without a model of the list, because the interface has no value for none. */
export const unlistedModel = "<model_family>-4.1";

/** When read, `model` is any string: an agent with an unlisted model is still usable. */
const aiConfig = z.looseObject({
  id: z.string(),
  model: z.string(),
  temperature: z.number(),
  topP: z.number(),
  instructions: z.string(),
  isCodeInterpreterEnabled: z.boolean(),
  isFileSearchEnabled: z.boolean(),
  fileSearchMaxNumResults: z.number(),
  reasoningEffort: z.enum(reasoningEfforts).nullish(),
  reasoningMode: z.enum(reasoningModes).nullish(),
  isOutputJsonSchemaEnabled: z.boolean().optional(),
  outputJsonSchema: z.string(),
});

const lenient = record(
  "agent",
  {
    id: z.string(),
    organizationId: z.string(),
    name: z.string(),
    status: z.string(),
    skills: z.array(skill.read),
  },
  {
    organizationName: z.string(),
    publicName: z.string(),
    role: z.string(),
    vectorStoreId: z.string(),
    aiConfig,
  },
  {
    description: z.string(),
    avatarUrl: z.string(),
    tags: z.array(z.string()).nullable(),
    restrictDocumentsToOwnerOnly: z.boolean(),
  },
);

/** When read, `status` is any string, so that a new state does not fail the client. When served, it is
 *  one of three, and each skill and model is one of the interface's. */
export const agent = {
  read: lenient.read,
  exact: lenient.exact.extend({
    id: z.uuid(),
    organizationId: z.uuid(),
    status: z.enum(["active", "inactive", "draft"]),
    aiConfig: aiConfig.extend({ model: z.string().regex(listedModel) }),
    skills: z.array(servedSkill),
  }),
};

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

/** POST /external/conversations/{id}/message-files/upload-url. */
export const uploadUrlRequest = z.looseObject({
  fileName: z.string().min(1).max(1_000),
  contentType: z.string().min(1).max(255),
});

/** The URL accepts the file's bytes by PUT, without a key, for a limited time. */
export const uploadUrl = record("upload address", { signedUrl: z.string(), storagePath: z.string() });

/** The URL returns the file's bytes by GET, without a key, for a limited time. */
export const downloadUrl = record("download address", { signedUrl: z.string(), fileId: z.string() });

/** For seconds of calls, texts, mails and tokens: the sum, and the mean per conversation. */
export const statistic = record(
  "statistic",
  {},
  {
    tokensUsed: z.number(),
    tokensPerConversation: z.number(),
    vapiSecondsUsed: z.number(),
    averageCallDuration: z.number(),
    smsUsed: z.number(),
    smsPerConversation: z.number(),
    emailsUsed: z.number(),
    emailsPerConversation: z.number(),
  },
);

/** Bounds are inclusive; the four ids restrict the result to one conversation user. */
export const statisticQuery = z.looseObject({
  startDate: instant.optional(),
  endDate: instant.optional(),
  fkId: z.string().min(1).optional(),
  fkUserId: z.string().min(1).optional(),
  userId: z.uuid().optional(),
  conversationUserId: z.uuid().optional(),
});

/** The state of a notification. `stored`: another system has to send the text or mail. A webhook's state is that of its
 *  delivery, or `removed` when the delivery was deleted. `messageId` is the question that triggered the escalation. */
export const escalation = record(
  "escalation",
  { id: z.string() },
  {
    conversationId: z.string(),
    messageId: z.string(),
    topic: z.string(),
    response: z.string(),
    notifications: z.array(
      z.looseObject({
        channel: z.enum(["sms", "email", "webhook"]),
        value: z.string(),
        state: z.enum(["stored", "pending", "delivered", "failed", "removed"]),
      }),
    ),
    createdAt: z.string(),
  },
);
