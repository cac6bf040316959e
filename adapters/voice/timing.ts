// All durations of the voice adapter, in milliseconds, that its configuration does not define. `VoiceChannel.timing` passes them
// down; a test overrides one through its channel.

import { minute, second } from "bridgehead/contract";

export const standardTiming = {
  // A live call.
  /** Longest wait at a drain for the end of our speech. */
  drain: 8 * second,
  /** A reply is tried again after this time: its call has no connection, or no request waits for the reply. */
  connectionRetry: 500,
  requestRetry: 250,
  /** Time for the provider to execute an `end` command, before we close the connection. */
  parting: 10 * second,
  /** Longest wait for the start event of a socket. */
  firstFrame: 5 * second,
  /** Delay between sending text and the start of its playback. */
  lead: 300,
  /** Tolerance of the estimated end of a piece, and the interval at which a filler looks whether our speech has ended. */
  estimate: second,
  /** A "speaking" event of the provider is believed for twice the estimated playback and this time. */
  doubt: 5 * second,
  /** Longest speech of the caller, in case the event of its end is lost. */
  longestSpeech: minute,
  // A call without a socket.
  /** A request is held for at most this time; Twilio's timeout for a request is 15 s. */
  longestHold: 9 * second,
  /** A call without any request for this time is closed, even when its end was never reported. */
  idle: 3 * minute,
  /** Time between the caller's last word and the end of recognition. */
  recognition: 1500,
  // Requests of the provider.
  /** The token that binds a socket to its call is valid for this long. */
  token: minute,
  /** Longest difference between our clock and the time of a webhook of Telnyx or Retell. */
  webhookSkew: 5 * minute,
  /** Requests about a call arrive at most this long after the status callback for its end. */
  overtaken: 5 * second,
  /** The words before the tone of a voicemail, and the request after it, take at most this time. */
  voicemail: minute,
  /** Pause before the first retry of a connection that failed; each further retry waits this much longer. */
  reconnect: 3 * second,
  // Outbound calls.
  /** Longest request to the provider. */
  request: 30 * second,
  /** The provider may still process a request for this long after its start. */
  processing: minute,
  /** Allowed difference between our clock and the provider's. */
  skew: 5 * second,
  /** An attempt is looked up again after this time when the list of calls could not be read. */
  lookup: 30 * second,
};

export type VoiceTiming = typeof standardTiming;
