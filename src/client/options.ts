// Options of a client and of each of its calls, and the records of the External API as the client returns them. Required
// fields are always present. Fields that the interface promises may be undefined, because they were not sent or had a
// wrong type. Unknown fields are passed through.

import type { Clock } from "bridgehead/contract";
import type * as z from "zod";
import type { agent, agentFile, downloadUrl, escalation, statistic, uploadUrl } from "../wire/agent.ts";
import type {
  conversation,
  conversationState,
  platformUser,
  responseOn,
  startResponse,
  user,
  userSearch,
} from "../wire/conversation.ts";
import type { Dropped } from "../wire/record.ts";
import type { delivery, webhook } from "../wire/webhook.ts";
import type { RateLimiter } from "./rate.ts";

/** The regions of the service (External API 1). Each has its own base address, which you know from your contract. */
export type Region = "us" | "eu";

/** The location of the platform: its base address, with or without a path (operations live under its
 *  `/external/`), or the addresses by region and the selected region. */
export type PlatformAddress =
  | { readonly url: string }
  | { readonly region: Region; readonly urls: { readonly [region in Region]?: string } };

export interface ClientOptions {
  /** `Agent-Secret-Key`: for all operations except the two that name an agent in their path. */
  readonly agentKey?: string;
  /** `Organization-Secret-Key`: `agents.usersOf` and `agents.platformUsersOf`. */
  readonly organizationKey?: string;
  /** Timeout of one request in milliseconds, from its first byte to the last byte of the response. An
   *  agent's answer can take long: 60 s is a low value. */
  readonly timeoutMs: number;
  /** Timeout in milliseconds until a connection is open or available, before the request is sent. Default 10 s. */
  readonly connectionWaitMs?: number;
  /** Maximum delay in milliseconds that a Retry-After header can impose; a longer one is reported as this one. Default
   *  15 minutes. */
  readonly longestRetryAfterMs?: number;
  /** Maximum number of concurrent requests; further requests are queued. Each has its own connection,
   *  opened on demand. A question occupies one until its answer has arrived. Default 128. */
  readonly connections?: number;
  /** Maximum number of attempts of a request, where a retry is safe: reads, and requests that certainly
   *  had no effect. Default 3; 1 disables retries. A call with `crossing` is attempted once. */
  readonly tries?: number;
  /** Between the attempts. */
  readonly pauses?: RetryPauses;
  /** Rate limiter: requests wait for their turn. Without it they are sent at once, and a 429 response
   *  reports an excess. */
  readonly rate?: RateLimiter;
  /** Called once for each field that had a wrong type and was dropped. */
  readonly dropped?: Dropped;
  /** Default: the system clock. */
  readonly clock?: Clock;
}

/** Milliseconds between two attempts of a request. */
export interface RetryPauses {
  /** Pause after the first attempt. It doubles with each further one. Default 250. */
  readonly first?: number;
  /** Maximum pause. Default 10,000. */
  readonly longest?: number;
  /** Maximum Retry-After that is waited for. For a longer one the result is returned, and the caller decides. Default
   *  60,000. */
  readonly longestRetryAfter?: number;
}

export interface CallOptions {
  /** Ends the call: `deferred` when no byte was sent, else `unknown`. */
  readonly signal?: AbortSignal;
  /** Overrides the client's `timeoutMs`. */
  readonly timeoutMs?: number;
  /** Called when a connection is available, before the first byte is written. A request with a body
   *  waits for the promise, for example until the attempt is recorded. An error or rejection keeps the
   *  request from being sent (`deferred`). */
  readonly crossing?: () => void | Promise<void>;
  /** True for a call whose connection is reserved (`Client.reserve`). Other calls leave it to this one. */
  readonly reserved?: boolean;
}

type ReadOf<R extends { readonly read: z.ZodType }> = z.output<R["read"]>;

/** External API 2.4. */
export type Agent = ReadOf<typeof agent>;
/** External API 2.2. */
export type User = ReadOf<typeof user>;
export type UserSearch = ReadOf<typeof userSearch>;
/** External API 2.3. */
export type PlatformUser = ReadOf<typeof platformUser>;
/** External API 2.7. */
export type Statistic = ReadOf<typeof statistic>;
/** A past escalation. */
export type Escalation = ReadOf<typeof escalation>;
export type Started = ReadOf<typeof startResponse>;
export type Conversation = ReadOf<typeof conversation>;
export type ConversationState = ReadOf<typeof conversationState>;
/** The status of a message that was sent asynchronously. */
export type Response = ReadOf<typeof responseOn>;
export type UploadUrl = ReadOf<typeof uploadUrl>;
export type DownloadUrl = ReadOf<typeof downloadUrl>;
export type AgentFile = ReadOf<typeof agentFile>;
export type Webhook = ReadOf<typeof webhook>;
/** An entry of a webhook's delivery log. */
export type Delivery = ReadOf<typeof delivery>;
export type { Message } from "../wire/conversation.ts";
export type { Page } from "../wire/record.ts";
