// Interface of an SMS provider. Everything that differs between providers is behind it. The rest of the
// adapter handles texts, statuses and drafts; it has no code for signatures, status codes or wire formats.

import type {
  Accepted,
  Attempt,
  Channel,
  ChannelFinding,
  ChannelStatus,
  Cursor,
  DeliveryEvent,
  ExternalId,
  Finding,
  HandledBefore,
  Json,
  PastAttempt,
  RoutePath,
  SendKey,
  SendOutcome,
  TlsServer,
} from "bridgehead/contract";
import type * as z from "zod";
import type { SmsConfig } from "./config.ts";
import type { TextClass } from "./outcomes.ts";
import type { SmsTiming } from "./timing.ts";

export interface Provider {
  readonly limits: {
    /** Maximum number of characters of one text. */
    readonly maxLength: number;
    /** Whether pictures can be sent. */
    readonly media: boolean;
    /** True when each segment of a text is submitted as a message of its own. */
    readonly bySegment?: true;
  };
  /** For providers that send webhooks: one endpoint for each URL they post to. */
  readonly endpoints?: readonly WebhookEndpoint[];
  /** `Inbound.run` of the contract, for providers with their own connection (SMPP) or a list from which
   *  missed messages are backfilled. */
  run?(cursor: Cursor | null, signal: AbortSignal): Promise<void>;
  /** Maximum number of texts that are sent at once: the HTTP connections that only texts use, or the window of an SMPP
   *  connection. It is the basis of `Outbound.capacity`, so no text may wait for another request. */
  readonly atOnce: number;
  /** `Outbound.send` of the contract. For an opted-out recipient it returns refused, code `opted-out`,
   *  scope `recipient`. */
  send(text: TextDraft, attempt: Attempt): Promise<SendOutcome>;
  /** `Outbound.reconcile` of the contract. When it is absent, only a delivery receipt settles an unknown outcome. */
  reconcile?(text: TextDraft, attempt: PastAttempt, signal: AbortSignal): Promise<Finding>;
  /** Returns the bytes for the `ref` of an inbound text's medium. */
  fetchMedia?(ref: Json, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** `Adapter.probe` of the contract. */
  probe(signal: AbortSignal): Promise<ChannelStatus>;
  /** `Adapter.servers` and `Adapter.examine` of the contract. */
  readonly servers?: readonly TlsServer[];
  examine?(signal: AbortSignal): Promise<readonly ChannelFinding[]>;
  /** `Adapter.close` of the contract. */
  close?(signal: AbortSignal): Promise<void>;
}

/** A provider that the configuration can name. A new provider is a folder that exports one, and a line in
 *  `config.ts`. */
export interface ProviderDefinition<Block extends z.ZodType = z.ZodType> {
  /** The value of the key `provider`. */
  readonly name: string;
  /** The provider's own configuration keys: a block under its name, which is then required. */
  readonly block?: Block;
  /** Common keys that this provider requires. */
  readonly needs?: readonly (keyof SmsConfig)[];
  /** True when the provider posts to us, so that `http.public_url` must be reachable. */
  readonly webhooks: boolean;
  /** Returns the number space: one number in two spaces is two numbers. Default: the provider's name. */
  network?(block: z.output<Block>): string;
  /** Creates the provider. Opens no connection. */
  create(parts: ProviderParts, config: SmsConfig, block: z.output<Block>): Provider;
}

/** Checks a definition against the type of its block. */
export function defineProvider<Block extends z.ZodType>(definition: ProviderDefinition<Block>): ProviderDefinition {
  return definition;
}

export interface ProviderParts {
  readonly channel: Channel;
  readonly timing: SmsTiming;
  /** Stores what was received outside a webhook. Resolves after the commit; acknowledge to the provider only then. */
  readonly accept: (batch: ReceivedBatch, cursor?: Cursor) => Promise<readonly Accepted[]>;
}

/** One webhook URL that the provider posts to. */
export interface WebhookEndpoint {
  readonly path: RoutePath;
  /** Verifies and parses one request, whose body is unread. Null: verification failed, and the response
   *  is 403. Must not throw for any content of an unverified request. */
  read(request: Request): Promise<ReceivedBatch | null>;
  /** Returns the response to the provider, sent after the commit. */
  answer(): Response;
}

/** The content of one request, list or packet. */
export interface ReceivedBatch {
  readonly texts: readonly InboundText[];
  readonly statuses: readonly TextStatus[];
}

export interface InboundText {
  /** The provider's id (a MessageSid). The same text always has the same id. */
  readonly id: string;
  /** As the provider writes it, with its prefix (`whatsapp:+15550100`). */
  readonly from: string;
  readonly to: string;
  /** The name that the sender gave the network (a WhatsApp profile). */
  readonly name?: string;
  readonly body: string;
  readonly sentAt: Date;
  readonly media: readonly InboundMedium[];
  /** The provider classified the text as one of these keywords and answered it. Takes precedence over our own lists. */
  readonly optOut?: "stop" | "start" | "help";
  /** The received bytes, for replay. */
  readonly raw: Uint8Array;
  /** The provider's log shows that the message was answered, although this database does not contain the answer. */
  readonly handledBefore?: HandledBefore;
  /** The provider takes it for the text of a machine, whose answer might be answered again. */
  readonly automatic?: true;
  /** Facts that the agent receives in addition to the text. */
  readonly notes?: { readonly [name: string]: string };
}

export interface InboundMedium {
  readonly ref: Json;
  readonly mediaType: string;
  /** Bytes, when known. */
  readonly size?: number;
}

/** The delivery status of a sent text. */
export interface TextStatus extends Pick<DeliveryEvent, "state" | "code" | "detail" | "raw"> {
  readonly id: string;
  /** Our send key, if the provider returns it. */
  readonly key: SendKey | null;
  /** Our canonical address that sent the text; absent when the status does not name it. */
  readonly sender?: string;
  /** The messaging service or profile that sent it; absent when the status does not name it. */
  readonly service?: string;
  /** The provider's status name. With `id` it forms the event id, so that duplicates of a status are ignored. */
  readonly status: string;
  /** When the text got the status, as the provider writes it: part of the event id for a provider that uses ids again. */
  readonly at?: string;
  /** For a failed text: its error class; null when the provider's code, `code`, is unknown. */
  readonly kind?: TextClass | null;
}

/** One text of a reply, as it is stored and sent. JSON. */
export type TextDraft = {
  /** Our number; null when a messaging service selects one. */
  readonly from: string | null;
  /** Canonical, with prefix. */
  readonly to: string;
  readonly body: string;
  /** Counted from 1. */
  readonly part: number;
  readonly parts: number;
  /** Public URLs of pictures. */
  readonly media: readonly string[];
  /** A messaging service (Twilio) or a messaging profile (Telnyx). */
  readonly service: string | null;
};

/** Returns true for an API on this machine: a sandbox, where plain http and private addresses are allowed. */
export function isLocal(url: string | URL): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Returns the event id under which a status is stored. */
export function statusEventId(id: string, status: string, at?: string): ExternalId {
  return (at === undefined ? `${id}/${status}` : `${id}/${status}/${at}`) as ExternalId;
}
