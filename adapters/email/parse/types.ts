// Messages between callers and the worker thread. All types survive a structured clone.

import type { Mail } from "./mail.ts";

/** DNS configuration of a worker. */
export interface DnsSettings {
  /** Addresses of DNS servers (`"192.0.2.1"`, `"[2001:db8::1]:53"`). Default: the system's. */
  readonly servers?: readonly string[];
  /** Fixed responses instead of a server, by `"<type> <name>"` in lower case (`"txt
   *  _dmarc.example.com"`). A list is the response, a string is a DNS error code such as `"ESERVFAIL"`.
   *  A name that is not listed does not exist. */
  readonly records?: { readonly [question: string]: readonly string[] | string };
  /** Timeout in ms for the checks of one message. Default 8000. */
  readonly milliseconds?: number;
}

export type SenderAuthSettings =
  | { readonly mode: "off" }
  /** Verify DKIM and DMARC in this process. */
  | { readonly mode: "mailauth"; readonly dns?: DnsSettings }
  /** Trust the topmost Authentication-Results header when this server wrote it. */
  | { readonly mode: "header"; readonly authservId: string };

export interface ParseContext {
  readonly senderAuth: SenderAuthSettings;
  /** The channel's addresses, lower case. The parser uses them to recognize responses to our messages.
   *  Without them it removes only marked quotes and signatures. Default: none. */
  readonly own?: readonly string[];
}

/** Whether the address in From is authenticated. Only `pass` means yes; `temperror` may be retried
 *  later. */
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

/** A request from the host to the worker. */
export interface Job {
  readonly id: number;
  readonly raw: Uint8Array;
  readonly context: ParseContext;
}

/** A response from the worker to the host: the parsed message, then (when requested) the result of the
 *  sender check. */
export type Answer =
  /** Sent once, when the thread has loaded its code. */
  | { readonly id: 0; readonly kind: "ready" }
  | { readonly id: number; readonly kind: "mail"; readonly mail: Mail; readonly more: boolean }
  | { readonly id: number; readonly kind: "auth"; readonly auth: SenderAuth }
  | { readonly id: number; readonly kind: "malformed"; readonly reason: string };
