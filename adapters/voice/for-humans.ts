// Messages to humans about calls: a voicemail, and a missed call. They reach responders as notifications, so no
// telephone has to be watched.

import { externalId, type MessageEvent, type Party, sessionId } from "bridgehead/contract";

export interface UnservedCall {
  readonly call: string;
  readonly from: Party;
  readonly ours: string | null;
  /** Clock time in milliseconds. */
  readonly at: number;
}

const nameOf = ({ address }: Party): string =>
  address.startsWith("anonymous:") ? "an anonymous caller" : address;

/** Reason of a missed call when no human answered the transfer. */
export const untaken = "nobody took the call that was handed over";

/** Builds the message for a missed call: the agent did not answer or was unreachable, or no human took the call. The
 *  id limits it to one per call. */
export function missedCall(call: UnservedCall, why: string): MessageEvent {
  const caller = nameOf(call.from);
  const subject = `Missed call from ${caller}`;
  const text = `${caller} called ${call.ours ?? "us"} and was not served: ${why}. No message was left.\nCall: ${call.call}`;
  return { ...message(call, "missed", text), forHumans: { subject } };
}

/** Builds the message for a voicemail recording. */
export function voicemail(
  call: UnservedCall,
  recording: { readonly id: string; readonly url: string; readonly seconds: string },
): MessageEvent {
  const caller = nameOf(call.from);
  const text = [
    `${caller} called ${call.ours ?? "us"}, nobody took the call, and this message was left.`,
    `Recording: ${recording.url}`,
    `Length: ${recording.seconds} seconds`,
  ].join("\n");
  const subject = `Voicemail from ${caller}`;
  return { ...message(call, `voicemail/${recording.id}`, text), forHumans: { subject } };
}

function message({ call, from, ours, at }: UnservedCall, what: string, text: string) {
  return {
    kind: "message",
    id: externalId(`${call}/${what}`),
    from,
    to: ours === null ? [] : [{ address: ours }],
    thread: { session: sessionId(call) },
    sentAt: new Date(at),
    text,
  } as const;
}
