// What people are told of calls: a message that was left, and a call that reached nobody. They hear of it also when nobody
// looks at a telephone.

import { externalId, type MessageEvent, type Party, sessionId } from "bridgehead/contract";

export interface UnservedCall {
  readonly call: string;
  readonly from: Party;
  readonly ours: string | null;
  /** Clock milliseconds. */
  readonly at: number;
}

const nameOf = ({ address }: Party): string =>
  address.startsWith("anonymous:") ? "an anonymous caller" : address;

/** Why a call that was handed over counts as missed. */
export const untaken = "nobody took the call that was handed over";

/** Nobody served the caller: the agent did not answer or could not be reached, or no human took the call. Once for a call. */
export function missedCall(call: UnservedCall, why: string): MessageEvent {
  const caller = nameOf(call.from);
  const subject = `Missed call from ${caller}`;
  const text = `${caller} called ${call.ours ?? "us"} and was not served: ${why}. No message was left.\nCall: ${call.call}`;
  return { ...message(call, "missed", text), forHumans: { subject } };
}

/** A message on the machine. */
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
