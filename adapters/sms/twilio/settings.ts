// What a Twilio-compatible provider is made with. SignalWire differs in nothing else.

export interface Login {
  readonly user: string;
  readonly password: string;
}

export interface TwilioSettings {
  readonly name: string;
  /** With the path before `/2010-04-01`, if there is one. */
  readonly apiUrl: string;
  readonly accountSid: string;
  /** Tried in this order; more than one during a rotation. */
  readonly logins: readonly Login[];
  /** Keys that a webhook's signature may have been made with. */
  readonly signingKeys: readonly string[];
  /** Headers the signature may stand in, in small letters. */
  readonly signatureHeaders: readonly string[];
  /** Canonical; null when only a service is known. */
  readonly number: string | null;
  readonly service: string | null;
  /** Canonical: further addresses of ours on this channel. */
  readonly further: readonly string[];
  /** How long the provider may try to deliver a text. */
  readonly validityMs: number;
  readonly statusCallback: boolean;
  /** Appended to the callback's address, behind `#`: how the provider repeats it. Never signed, never sent to us. */
  readonly callbackOverrides: string;
  readonly media: {
    readonly maxSize: number;
    /** Hosts that media may be fetched from with our login, beside the interface's own. */
    readonly hosts: readonly string[];
  };
  readonly missed: {
    /** Milliseconds between two looks, how far each reaches back beyond the last one, and how old a text must be before
     *  its webhook counts as missed. */
    readonly every: number;
    readonly overlap: number;
    readonly after: number;
  };
  /** Whether a text to that address of ours is nothing but a word of consent: such a one counts as soon as it is found. */
  readonly isConsent: (body: string, to: string) => boolean;
  readonly ca?: string | undefined;
}

/** True for an interface on this machine: a sandbox, where plain http and private addresses are right. */
export function isLocal(url: string | URL): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
