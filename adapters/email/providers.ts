// What is known about large providers, by the host name of their servers.

export interface Provider {
  /** Puts every mail we send into the Sent folder itself. */
  readonly filesSent: boolean;
  /** Keeps our Message-ID: only then does its absence from Sent prove anything. */
  readonly keepsMessageId: boolean;
  /** The longest it lets a line idle, ms; null when nothing shorter than usual is known. */
  readonly idleLimit: number | null;
}

const unknownProvider: Provider = { filesSent: false, keepsMessageId: true, idleLimit: null };

// Sources: Google and Apple document that SMTP submission files the copy; Microsoft: "SMTP AUTH client submission"
// stores in Sent Items and replaces Message-IDs; idle limits as EmailEngine uses them.
const table: readonly (readonly [RegExp, Provider])[] = [
  [/(^|\.)(gmail|googlemail)\.com$/, { filesSent: true, keepsMessageId: true, idleLimit: null }],
  [
    /(^|\.)(office365|outlook|hotmail|live)\.com$|(^|\.)outlook\.office\.com$/,
    { filesSent: true, keepsMessageId: false, idleLimit: null },
  ],
  [/(^|\.)mail\.me\.com$|(^|\.)icloud\.com$/, { filesSent: true, keepsMessageId: true, idleLimit: null }],
  [
    /(^|\.)(yahoo|aol)\.(com|co\.[a-z]+|[a-z]+)$/,
    { filesSent: true, keepsMessageId: true, idleLimit: 3 * 60_000 },
  ],
  [/(^|\.)(rambler\.ru|163\.com|126\.com)$/, { filesSent: false, keepsMessageId: true, idleLimit: 55_000 }],
];

/** Never fails: an unknown host is an ordinary server that files nothing. */
export function providerOf(host: string): Provider {
  const name = host.toLowerCase();
  return table.find(([pattern]) => pattern.test(name))?.[1] ?? unknownProvider;
}
