// Giving a call to a human: what the provider is told, and what it is answered when it asks what to do.

import type { VoiceConfig } from "./config.ts";
import type { Capabilities } from "./dialects/dialect.ts";
import { element, escapeXml } from "./twiml.ts";

type HandOver = NonNullable<VoiceConfig["hand_over"]>;

/** By a frame a call can only be sent to a number. */
export function canHandOver(
  { hand_over }: VoiceConfig,
  { transfer }: Pick<Capabilities, "transfer">,
): boolean {
  if (transfer === "callback") return hand_over !== undefined;
  return (transfer === "frame" || transfer === "dial") && hand_over?.dial !== undefined;
}

/** What goes with the end of the session. It comes back in the callback and is shown to whoever takes the call: no personal
 *  words; below 4 KB. The callback looks up what is stored, and believes of this no more than the language. */
export function handOverData(call: string, reason: string, language: string): string {
  return JSON.stringify({ reason, call, language });
}

/** The language in what came back, or null. */
export function languageInData(data: string | undefined): string | null {
  try {
    const { language } = JSON.parse(data ?? "") as { language?: unknown };
    return typeof language === "string" ? language.slice(0, 20) : null;
  } catch {
    return null;
  }
}

export interface HandOverCall {
  readonly call: string;
  readonly reason: string;
  /** Where the outcome of a Dial is reported. */
  readonly dialed: string;
  readonly language: string;
}

/** The verb that leads the call to a human. Dial comes back to us; of the others nothing more is heard. */
export function handOverVerb(over: HandOver, { call, reason, dialed, language }: HandOverCall): string {
  if (over.redirect !== undefined) return element("Redirect", { method: "POST" }, [escapeXml(over.redirect)]);
  if (over.enqueue !== undefined) {
    const task = { ...over.enqueue.attributes, call_sid: call, reason, language };
    const inner = element("Task", {}, [escapeXml(JSON.stringify(task))]);
    return element("Enqueue", { workflowSid: over.enqueue.workflow_sid }, [inner]);
  }
  return element(
    "Dial",
    {
      action: dialed,
      method: "POST",
      timeout: Math.round(over.timeout / 1000),
      callerId: over.caller_id,
      answerOnBridge: true,
    },
    dialTargets(over),
  );
}

/** The numbers and addresses that ring. */
export function dialTargets(over: HandOver): readonly string[] {
  return (over.dial ?? []).map((to) =>
    to.startsWith("sip:") ? element("Sip", {}, [escapeXml(to)]) : element("Number", {}, [escapeXml(to)]),
  );
}
