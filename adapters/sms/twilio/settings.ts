// Settings of a Twilio-compatible provider. SignalWire differs only in these.

export interface Login {
  readonly user: string;
  readonly password: string;
}

export interface TwilioSettings {
  readonly name: string;
  /** With the path before `/2010-04-01`, if there is one. */
  readonly apiUrl: string;
  readonly accountSid: string;
  /** Tried in this order. There are several during a token rotation. */
  readonly logins: readonly Login[];
  /** Keys that can have signed a webhook request. */
  readonly signingKeys: readonly string[];
  /** Headers that can contain the signature, in lower case. */
  readonly signatureHeaders: readonly string[];
  /** Canonical; null when only a messaging service is configured. */
  readonly number: string | null;
  readonly service: string | null;
  /** Canonical: further addresses of this channel. */
  readonly further: readonly string[];
  /** How long the provider may try to deliver a text, in milliseconds. */
  readonly validityMs: number;
  readonly statusCallback: boolean;
  /** Appended to the callback URL behind `#`: how the provider retries the callback. It is never signed
   *  and never sent to us. */
  readonly callbackOverrides: string;
  readonly media: {
    readonly maxSize: number;
    /** Hosts in addition to the API's own from which media may be downloaded with our login. */
    readonly hosts: readonly string[];
  };
  readonly backfill: {
    /** Milliseconds: the polling interval, the overlap of each poll with the last one, and the age at
     *  which a text's webhook counts as missed. */
    readonly every: number;
    readonly overlap: number;
    readonly after: number;
  };
  /** Returns whether a text to that address consists only of a consent keyword. Such a text is processed
   *  as soon as it is found. */
  readonly isConsent: (body: string, to: string) => boolean;
  readonly ca?: string | undefined;
}

/** Returns true for an API on this machine: a sandbox, where plain http and private addresses are
 *  allowed. */
export function isLocal(url: string | URL): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
