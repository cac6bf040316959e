// The records of the External API as the client returns them. Required fields are always present. Fields
// that the interface promises may be undefined, because they were not sent or had a wrong type. Unknown
// fields are passed through.

import type * as z from "zod";
import type { agent } from "../wire/agent.ts";
import type { conversation, conversationState } from "../wire/conversation.ts";
import type { escalation } from "../wire/escalation.ts";
import type { agentFile, downloadUrl, uploadUrl } from "../wire/file.ts";
import type { responseOn } from "../wire/message.ts";
import type { startResponse } from "../wire/start.ts";
import type { statistic } from "../wire/statistic.ts";
import type { platformUser, user, userSearch } from "../wire/user.ts";
import type { delivery, webhook } from "../wire/webhook.ts";

type Read<R extends { readonly read: z.ZodType }> = z.output<R["read"]>;

/** External API 2.4. */
export type Agent = Read<typeof agent>;
/** External API 2.2. */
export type User = Read<typeof user>;
export type UserSearch = Read<typeof userSearch>;
/** External API 2.3. */
export type PlatformUser = Read<typeof platformUser>;
/** External API 2.7. */
export type Statistic = Read<typeof statistic>;
/** A past escalation. */
export type Escalation = Read<typeof escalation>;
export type Started = Read<typeof startResponse>;
export type Conversation = Read<typeof conversation>;
export type ConversationState = Read<typeof conversationState>;
/** The status of a message that was sent asynchronously. */
export type Response = Read<typeof responseOn>;
export type UploadUrl = Read<typeof uploadUrl>;
export type DownloadUrl = Read<typeof downloadUrl>;
export type AgentFile = Read<typeof agentFile>;
export type Webhook = Read<typeof webhook>;
/** An entry of a webhook's delivery log. */
export type Delivery = Read<typeof delivery>;
export type { Message } from "../wire/message.ts";
export type { Page } from "../wire/page.ts";
