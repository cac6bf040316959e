// Creates the provider that the configuration block names.

import type { SmsConfig } from "./config.ts";
import { meaningOf } from "./inbound.ts";
import type { Provider, ProviderParts } from "./provider.ts";
import { signalwireSettings } from "./signalwire.ts";
import { smpp } from "./smpp/index.ts";
import { telnyx } from "./telnyx/index.ts";
import { twilioProvider } from "./twilio/index.ts";
import type { TwilioSettings } from "./twilio/settings.ts";

const makers: Readonly<Record<SmsConfig["provider"], (parts: ProviderParts, config: SmsConfig) => Provider>> =
  {
    twilio: (parts, config) => twilioProvider(parts, twilioSettings(config)),
    signalwire: (parts, config) => twilioProvider(parts, signalwireSettings(twilioSettings(config))),
    telnyx: (parts, config) => {
      if (config.telnyx === undefined) throw new Error("provider: telnyx needs the block telnyx");
      const { api_url: apiUrl, ca, media } = config;
      return telnyx(parts, config.telnyx, { apiUrl, ca, maxMedia: media.max_size });
    },
    smpp: (parts, config) => {
      if (config.smpp === undefined) throw new Error("provider: smpp needs the block smpp");
      return smpp(parts, config.smpp, { validityMs: config.validity, country: config.country });
    },
  };

/** Creates the provider. Opens no connection. */
export function providerOf(parts: ProviderParts, config: SmsConfig): Provider {
  return makers[config.provider](parts, config);
}

const twilioUrl = "https://api.twilio.com";
/** Several retries within the fifteen seconds that a callback may take. */
const callbackOverrides = "rc=3&rp=ct,rt,5xx&rt=4000";

/** Converts the configuration block to the settings of a Twilio-compatible provider. */
function twilioSettings(config: SmsConfig): TwilioSettings {
  const { api_key: key, account_sid: account = "", auth_tokens: tokens = [] } = config;
  return {
    name: config.provider,
    apiUrl: config.api_url ?? twilioUrl,
    accountSid: account,
    logins: key
      ? [{ user: key.sid, password: key.secret }]
      : tokens.map((password) => ({ user: account, password })),
    signingKeys: config.signing_keys ?? tokens,
    signatureHeaders: ["x-twilio-signature"],
    number: config.number ?? null,
    service: config.messaging_service ?? null,
    further: config.further_numbers,
    validityMs: config.validity,
    statusCallback: config.status_callback,
    callbackOverrides,
    media: { maxSize: config.media.max_size, hosts: config.media.hosts },
    backfill: config.backfill,
    isConsent: (body, to) => meaningOf(config, body, to) !== null,
    ca: config.ca,
  };
}
