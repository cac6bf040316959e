// What callers and the worker's thread say to each other. Everything here survives a structured clone.

import type { Mail } from "./mail.ts";

/** DNS as a worker can be told about it. */
export interface DnsSettings {
  /** Addresses of DNS servers (`"192.0.2.1"`, `"[2001:db8::1]:53"`). Default: the system's. */
  readonly servers?: readonly string[];
  /**
   * Fixed answers instead of any server, by `"<type> <name>"` in lower case (`"txt _dmarc.example.com"`). A list is the answer,
   * a word is a DNS error code such as `"ESERVFAIL"`; what is not listed does not exist.
   */
  readonly records?: { readonly [question: string]: readonly string[] | string };
  /** The budget of one mail's checks. Default 8000. */
  readonly milliseconds?: number;
}

export type SenderAuthSettings =
  | { readonly mode: "off" }
  /** Check DKIM and DMARC ourselves. */
  | { readonly mode: "mailauth"; readonly dns?: DnsSettings }
  /** Believe the topmost Authentication-Results header, when it is of this server. */
  | { readonly mode: "header"; readonly authservId: string };

export interface ParseContext {
  readonly senderAuth: SenderAuthSettings;
  /**
   * The channel's addresses, lower case. The parser recognises answers to our mails by them; without them it removes only marked quotes and
   * signatures. Default: none.
   */
  readonly own?: readonly string[];
}

/** Is the address in From proven? Anything but `pass` is not; `temperror` may be asked again later. */
export interface SenderAuth {
  readonly verdict: "pass" | "fail" | "none" | "temperror";
  readonly method: "dmarc" | "authentication-results";
  /** Domain of the From address, lower-cased; "" when there is not exactly one. */
  readonly domain: string;
  readonly detail: string;
}

export type ParseResult =
  | { readonly ok: true; readonly mail: Mail; readonly auth: SenderAuth | null }
  | {
      readonly ok: false;
      readonly code: "too-slow" | "too-big-in-memory" | "malformed";
      readonly reason: string;
    };

/** Host to worker. */
export interface Job {
  readonly id: number;
  readonly raw: Uint8Array;
  readonly context: ParseContext;
}

/** Worker to host: the parsed mail, then (when asked for) what is known of its sender. */
export type Answer =
  /** Once, when the thread has loaded its code. */
  | { readonly id: 0; readonly kind: "ready" }
  | { readonly id: number; readonly kind: "mail"; readonly mail: Mail; readonly more: boolean }
  | { readonly id: number; readonly kind: "auth"; readonly auth: SenderAuth }
  | { readonly id: number; readonly kind: "malformed"; readonly reason: string };
