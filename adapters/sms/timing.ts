// All durations of the SMS adapter, in milliseconds, that its configuration does not define. `ProviderParts.timing` passes them
// down; a test overrides one through its channel.

import { hour, minute, second } from "bridgehead/contract";

export const standardTiming = {
  // All providers.
  /** Longest request to an API; that of Twilio's own package. Telnyx responds in well under a second. */
  request: 30 * second,
  /** A sender or an account that may not send is paused for this long at first, and twice as long after each further lost text. */
  pauseFirst: 30 * second,
  pauseLongest: 5 * minute,
  /** The status of an accepted text arrives within seconds: the next text of a paused sender waits for it this long. */
  firstStatus: 10 * second,
  /** A text is sent again after this time: the account is not enabled for its country or network; it was not delivered. */
  reachRetry: hour,
  unreachedRetry: 2 * minute,
  /** Longest difference between our clock and the time of a webhook of Telnyx. */
  webhookSkew: 5 * minute,
  // Twilio.
  /** Longest download of a picture. */
  download: minute,
  /** The provider may finish a request this long after it began, although we stopped waiting. Lookups are this far apart. */
  processing: 30 * second,
  /** Allowed difference between the clocks of the provider and of the channel. */
  skew: 10 * second,
  /** After a long downtime the past is read in pieces of this length, each with a separate commit. */
  piece: 2 * hour,
  // SMPP.
  /** Longest time to close a connection in good order. */
  leave: 700,
  /** A part of a text that the message centre throttled is sent again after this time. */
  throttled: second,
  /** A cursor that only became shorter waits this long for texts to share its commit. */
  linger: 50,
  /** Longest interval at which texts with missing parts are searched. */
  incompleteCheck: 30 * second,
  /** A message centre that has not retried a delivery for this long will not retry. */
  forgotten: hour,
  /** A message centre that retries over the same connection has waited at least this long. A customer who writes "ok" twice is
   *  faster. */
  impatient: 5 * second,
};

export type SmsTiming = typeof standardTiming;
