// SignalWire speaks Twilio's language at an address of one's own (`https://SPACE.signalwire.com/api/laml`): what differs is data.

import type { TwilioSettings } from "./twilio/settings.ts";

/** Webhooks are signed with the project's signing key, under a name of their own or under Twilio's. Addresses with overrides behind
 *  `#` are not known there. */
export function signalwireSettings(settings: TwilioSettings): TwilioSettings {
  return {
    ...settings,
    name: "signalwire",
    signatureHeaders: ["x-signalwire-signature", "x-twilio-signature"],
    callbackOverrides: "",
  };
}
