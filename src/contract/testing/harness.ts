// The interface that an adapter's author implements for the conformance suite: a peer (the provider's
// server, real or a fake on a real socket), with methods to observe it and to inject faults.

import type { Adapter, Channel, Party, Reply, RoutePath } from "../index.ts";

/** A fault of the peer. Each applies from the call of `Peer.fault` until the next call. */
export type Fault =
  /** Connections are refused, and open connections are closed when the fault begins. The peer must later listen on the
   *  same port. A port assigned by the system (port 0) may belong to another process by then. */
  | "refuse-connection"
  /** The peer permanently rejects each message (SMTP 5xx, HTTP 400). */
  | "refuse-message"
  /** The peer temporarily rejects each message (SMTP 4xx, HTTP 429). */
  | "later"
  /** The peer accepts the connection and closes it before a message can be transferred (in greeting, TLS or login). */
  | "cut-before"
  /** The peer accepts a message, `delivered` returns it, and the connection is closed instead of a response. */
  | "cut-after"
  /** The peer accepts the connection and never sends a byte. */
  | "hang-before"
  /** The peer accepts a message, `delivered` returns it, and no response is sent. */
  | "hang-after"
  /** The peer responds with an error that does not tell whether it accepted the message (HTTP 500, 502, 504). If it did,
   *  `delivered` returns it. */
  | "server-error";

/** An ability that an adapter or its protocol may lack. The suite asserts every ability that is not
 *  declared as lacking. */
export type Ability =
  | Fault
  /** Has `inbound`. */
  | "inbound"
  /** The peer keeps messages from before the channel's first run, and the adapter could read them. */
  | "history"
  /** The peer also lists the messages that it posts: a message of `say` and a request with the same text are one message. */
  | "backfill"
  /** Acknowledges received messages to the peer (a flag, an ack). Without it only the cursor advances. */
  | "acknowledge"
  /** Has `outbound`. */
  | "outbound"
  /** Has `outbound.capacity`. Without it no send may wait for another; the reason states why none does. */
  | "capacity"
  /** The peer says something before a message can be sent (TLS, a greeting, a login), so that an attempt whose peer is
   *  silent or gone ends before the crossing. Over plain HTTP the crossing follows the TCP connection at once. */
  | "handshake"
  /** Sends files with a reply (`Traits.attachments`). */
  | "attachments"
  /** Has `outbound.reconcile`. */
  | "reconcile"
  /** The peer can state after how long a message may be sent again (`Peer.laterMs`). */
  | "delay"
  /** `reconcile` can prove that a draft was not sent. Without this ability it must return `unsure`. */
  | "absence"
  /** Has `probe`. */
  | "probe"
  /** The peer checks credentials. */
  | "credentials"
  /** Has a route of kind `http`, or of kind `socket`. */
  | "http"
  | "socket"
  /** The adapter's sockets carry sessions: each socket opens one, and each utterance becomes a message
   *  of that session. */
  | "session";

export interface Harness {
  /** Starts a peer for one check, on a free port. It has no state of an earlier check; several peers run at once. */
  start(): Promise<Peer>;
  /** The abilities that this adapter lacks, each with the reason. The reason is printed with every check
   *  that is omitted. */
  readonly lacks?: { readonly [ability in Ability]?: string };
  /** Dotted paths of configuration objects with arbitrary keys (`z.record`). They are exempt from the
   *  "unknown key" check. */
  readonly openKeys?: readonly string[];
  /** Timeout of the suite for an expected event. Default 30 s. */
  readonly patienceMs?: number;
  /** How long the suite watches for an event that must not occur. Default 200 ms. It must exceed the
   *  adapter's fastest reaction. */
  readonly quietMs?: number;
}

/** The provider in one check. All members except the first three belong to an ability, and may be absent
 *  when it is lacking. */
export interface Peer {
  /** The configuration block for this peer as an operator writes it, before the schema. `wrong`: the
   *  peer rejects the login. */
  config(credentials: "right" | "wrong"): unknown;
  fault(fault: Fault | "none"): Promise<void> | void;
  /** Stops everything that `start` began, including open connections. */
  stop(): Promise<void>;
  /** For a peer that connects to the adapter. Called with every adapter created for it, to mount the
   *  routes or open a session. */
  attach?(adapter: Adapter, channel: Channel): Promise<void>;
  /** inbound: sends one message with exactly this text. Resolves when the peer has stored it, whether or
   *  not it was read. */
  say?(text: string): Promise<void>;
  /** acknowledge: the texts of the messages that the adapter has acknowledged to the peer. */
  acknowledged?(): Promise<readonly string[]> | readonly string[];
  /** outbound: the fields of a reply that this peer needs: at least `to`. */
  readonly reply?: Partial<Reply> & { readonly to: readonly Party[] };
  /** outbound: the texts that the peer has accepted, one entry for each delivery. */
  delivered?(): Promise<readonly string[]> | readonly string[];
  /** delay: the milliseconds after which the peer wants the message again at the fault "later". */
  readonly laterMs?: number;
  /** attachments: the files that the peer received with the reply of this text, in order, also in messages of their own. */
  files?(text: string): Promise<readonly TakenFile[]> | readonly TakenFile[];
  /** http: one sample for every http route of the adapter. */
  requests?(url: (path: RoutePath) => URL): readonly RequestSample[];
  /** socket: one sample for every socket route of the adapter. */
  upgrades?(url: (path: RoutePath) => URL): readonly UpgradeSample[];
  /** session: one sample for every socket route that carries sessions. */
  sessions?(url: (path: RoutePath) => URL): readonly SessionSample[];
}

/** A file as the peer received it. */
export interface TakenFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface RequestSample {
  /** The path of the route. Its method is that of `good`. */
  readonly path: RoutePath;
  /** Whether a valid request makes the adapter call `accept`. */
  readonly accepts: boolean;
  /** Returns a request as the provider sends it, with a valid signature. The same text gives the same request. */
  good(text: string): Request;
  /** Returns the same request with an invalid signature. */
  forged(text: string): Request;
}

export interface SessionSample {
  readonly path: RoutePath;
  /** Creates a new session for each call, up to its upgrade. It also performs any earlier step, such as
   *  a webhook that issues a token. */
  begin(adapter: Adapter): Promise<Caller>;
}

/** The provider's side of one session. */
export interface Caller {
  /** A valid upgrade request. */
  readonly request: Request;
  /** The first frames of the session. After them the session is `opened`. */
  readonly opening: readonly (string | Uint8Array)[];
  /** Returns the frames that transmit exactly this text as the caller's utterance. */
  say(text: string): readonly (string | Uint8Array)[];
}

export interface UpgradeSample {
  readonly path: RoutePath;
  good(): Request;
  forged(): Request;
}
