// SignalWire implements Twilio's API at a separate URL for each customer
// (`https://SPACE.signalwire.com/api/laml`). Only the settings differ.

import type { TwilioSettings } from "./twilio/settings.ts";

/** Returns the settings for SignalWire. Its webhooks are signed with the project's signing key, in a
 *  header of their own or in Twilio's header. It does not support overrides behind `#` in a callback
 *  URL. */
export function signalwireSettings(settings: TwilioSettings): TwilioSettings {
  return {
    ...settings,
    name: "signalwire",
    signatureHeaders: ["x-signalwire-signature", "x-twilio-signature"],
    callbackOverrides: "",
  };
}
