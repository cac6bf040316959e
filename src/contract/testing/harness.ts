// What the author of an adapter brings to the conformance suite: a peer (the provider's server, real or made for the
// test, on a real socket) and how to watch it and to break it.

import type { Adapter, Channel, Party, Reply, RoutePath } from "../index.ts";

/** What can be wrong with the peer. Each holds from the call of `Peer.fault` to the next one. */
export type Fault =
  /** Nothing listens: connections are refused, and those open when it begins are closed. The port must come back: one
   *  that the system dealt out (port 0) may be another process's by then. */
  | "refuse-connection"
  /** The peer answers a message that it will never take it (SMTP 5xx, HTTP 400). */
  | "refuse-message"
  /** The peer answers a message "not now" (SMTP 4xx, HTTP 429). */
  | "later"
  /** The connection is taken and cut before a message could have been handed over (in greeting, TLS or login). */
  | "cut-before"
  /** The peer takes a message, `delivered` shows it, and the line is cut in place of the answer. */
  | "cut-after"
  /** The connection is taken and not one byte is answered. */
  | "hang-before"
  /** The peer takes a message, `delivered` shows it, and no answer comes. */
  | "hang-after";

/** What an adapter or its protocol may lack. Whatever is not declared missing is asserted. */
export type Ability =
  | Fault
  /** Has `inbound`. */
  | "inbound"
  /** Tells the peer what it has taken over (a flag, an ack); without it only the cursor moves. */
  | "acknowledge"
  /** Has `outbound`. */
  | "outbound"
  /** Sends files with a reply (`Traits.attachments`). */
  | "attachments"
  /** Has `outbound.reconcile`. */
  | "reconcile"
  /** `reconcile` can tell that something was not sent; without it it must stay unsure. */
  | "absence"
  /** Has `probe`. */
  | "probe"
  /** The peer checks credentials. */
  | "credentials"
  /** Has a route of kind `http`, or of kind `socket`. */
  | "http"
  | "socket"
  /** Its sockets carry sessions: each opens one, and what is said in it becomes messages of that session. */
  | "session";

export interface Harness {
  /** Starts a peer for one check, on a free port. Nothing of an earlier check shows in it; several run at once. */
  start(): Promise<Peer>;
  /** Abilities this adapter lacks, each with the reason, which is printed with every check it costs. */
  readonly lacks?: { readonly [ability in Ability]?: string };
  /** Dotted paths of configuration objects whose keys the operator makes up (`z.record`), exempt from "unknown key". */
  readonly openKeys?: readonly string[];
  /** How long the suite waits for what must come. Default 30 s. */
  readonly patienceMs?: number;
  /** How long the suite looks on for what must not come. Default 200 ms; above the adapter's quickest reaction. */
  readonly quietMs?: number;
}

/** The far side of one check. All members but the first three belong to an ability and may be absent with it. */
export interface Peer {
  /** The block an operator would write to reach this peer, before the schema; `wrong`: the peer rejects the login. */
  config(credentials: "right" | "wrong"): unknown;
  fault(fault: Fault | "none"): Promise<void> | void;
  /** Ends everything that `start` began, open connections too. */
  stop(): Promise<void>;
  /** For a peer that calls us: told of every adapter made for it, so that it can mount the routes or open a session. */
  attach?(adapter: Adapter, channel: Channel): Promise<void>;
  /** inbound: a person sends one message with exactly this text; resolves when the peer has it, read or not. */
  say?(text: string): Promise<void>;
  /** acknowledge: the texts of what the adapter has told the peer it took over. */
  acknowledged?(): Promise<readonly string[]> | readonly string[];
  /** outbound: what the suite's replies need for this peer: `to` at least. */
  readonly reply?: Partial<Reply> & { readonly to: readonly Party[] };
  /** outbound: the texts the peer has taken from us, one entry for each time. */
  delivered?(): Promise<readonly string[]> | readonly string[];
  /** attachments: the files the peer has taken with the message that has this text, in their order. */
  files?(text: string): Promise<readonly TakenFile[]> | readonly TakenFile[];
  /** http: one sample for every http route of the adapter. */
  requests?(url: (path: RoutePath) => URL): readonly RequestSample[];
  /** socket: one sample for every socket route of the adapter. */
  upgrades?(url: (path: RoutePath) => URL): readonly UpgradeSample[];
  /** session: one sample for every socket route that carries sessions. */
  sessions?(url: (path: RoutePath) => URL): readonly SessionSample[];
}

/** A file as it arrived. */
export interface TakenFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface RequestSample {
  readonly path: RoutePath;
  /** Whether a good request makes the adapter call `accept`. */
  readonly accepts: boolean;
  /** What the provider would send, signed; the same text gives the same request. */
  good(text: string): Request;
  /** The same with a signature that does not hold. */
  forged(text: string): Request;
}

export interface SessionSample {
  readonly path: RoutePath;
  /** A new session for each call, up to its upgrade; what must happen before (a webhook that makes a token) happens here. */
  begin(adapter: Adapter): Promise<Caller>;
}

/** One session as the provider holds it. */
export interface Caller {
  /** The good upgrade. */
  readonly request: Request;
  /** The frames with which it begins: after them the session is `opened`. */
  readonly opening: readonly (string | Uint8Array)[];
  /** The frames with which the person says exactly this text. */
  say(text: string): readonly (string | Uint8Array)[];
}

export interface UpgradeSample {
  readonly path: RoutePath;
  good(): Request;
  forged(): Request;
}
