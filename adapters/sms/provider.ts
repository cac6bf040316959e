// One provider of texts. Everything that differs between providers is behind this interface: the rest of the adapter
// knows texts, statuses and drafts, and nothing of signatures, status codes or wires.

import type {
  Accepted,
  Attempt,
  Channel,
  ChannelStatus,
  Cursor,
  DeliveryEvent,
  ExternalId,
  HandledBefore,
  Json,
  PastAttempt,
  RoutePath,
  SendKey,
  SendOutcome,
  Verdict,
} from "bridgehead/contract";
import type { TextClass } from "./classes.ts";

export interface Provider {
  /** As configured under `provider`. */
  readonly name: string;
  readonly limits: {
    /** Characters one text may have. */
    readonly maxLength: number;
    /** Whether pictures can be sent. */
    readonly media: boolean;
  };
  /** For providers that call us: one door for each address they post to. */
  readonly doors?: readonly Door[];
  /** `Inbound.run` of the contract, for providers with a connection of their own (SMPP) or a list of what was missed. */
  run?(cursor: Cursor | null, signal: AbortSignal): Promise<void>;
  /** `Outbound.send` of the contract. The address was opted out: refused, code `opted-out`, scope `recipient`. */
  send(text: TextDraft, attempt: Attempt): Promise<SendOutcome>;
  /** `Outbound.reconcile` of the contract. Absent: only a receipt can tell. */
  reconcile?(text: TextDraft, attempt: PastAttempt, signal: AbortSignal): Promise<Verdict>;
  /** The bytes behind the `ref` of an inbound text's medium. */
  fetchMedia?(ref: Json, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** `Adapter.probe` of the contract. */
  probe(signal: AbortSignal): Promise<ChannelStatus>;
  /** `Adapter.close` of the contract. */
  close?(signal: AbortSignal): Promise<void>;
}

/** What a provider is made with. */
export interface ProviderParts {
  readonly channel: Channel;
  /** Hands over what was heard outside a door. Resolves after the commit; only then tell the provider. */
  readonly hear: (heard: Heard, cursor?: Cursor) => Promise<readonly Accepted[]>;
}

/** One address that the provider posts to. */
export interface Door {
  readonly path: RoutePath;
  /** Proves and reads one request; its body is unread. Null: not proven, answered 403. Must not throw for anything
   *  that an unproven request may contain. */
  read(request: Request): Promise<Heard | null>;
  /** What the provider is told after the commit. */
  answer(): Response;
}

/** What one request, list or packet told us. */
export interface Heard {
  readonly texts: readonly InboundText[];
  readonly statuses: readonly TextStatus[];
}

/** A person's text. */
export interface InboundText {
  /** The provider's id (a MessageSid): the same text has the same id, for ever. */
  readonly id: string;
  /** As the provider writes it, with its prefix (`whatsapp:+15550100`). */
  readonly from: string;
  readonly to: string;
  /** The name the person gave the network (a WhatsApp profile). */
  readonly name?: string;
  readonly body: string;
  readonly sentAt: Date;
  readonly media: readonly InboundMedium[];
  /** The provider took the text for one of these words itself, and answered it. Beats our own lists. */
  readonly optOut?: "stop" | "start" | "help";
  /** What was received, for replay. */
  readonly raw: Uint8Array;
  /** The provider's log shows that it was answered, although this store does not know it. */
  readonly handledBefore?: HandledBefore;
  /** Facts the agent is told beside the text. */
  readonly notes?: { readonly [name: string]: string };
}

export interface InboundMedium {
  readonly ref: Json;
  readonly mediaType: string;
  /** Bytes, when known. */
  readonly size?: number;
}

/** What became of a text of ours. */
export interface TextStatus {
  /** The provider's id of the text. */
  readonly id: string;
  /** Our key, where the provider carries it. */
  readonly key: SendKey | null;
  /** Our address that it was sent from, canonical; absent when the status does not name it. */
  readonly sender?: string;
  /** The provider's word; with `id` it is the event's id, so that every status counts once. */
  readonly status: string;
  readonly state: DeliveryEvent["state"];
  /** failed: what is wrong; null when the provider's code says nothing to us. */
  readonly kind?: TextClass | null;
  /** The provider's error code, and what it says. */
  readonly code?: string;
  readonly detail?: string;
  readonly raw?: Uint8Array;
}

/** What is stored and sent: one text of a reply. JSON. */
export type TextDraft = {
  /** Our number; null when a service picks one. */
  readonly from: string | null;
  /** Canonical, with prefix. */
  readonly to: string;
  readonly body: string;
  /** Counted from 1. */
  readonly part: number;
  readonly parts: number;
  /** Public addresses of pictures. */
  readonly media: readonly string[];
  /** A messaging service (Twilio), a messaging profile (Telnyx). */
  readonly service: string | null;
};

/** The id under which a status is stored. */
export function statusEventId(id: string, status: string): ExternalId {
  return `${id}/${status}` as ExternalId;
}
