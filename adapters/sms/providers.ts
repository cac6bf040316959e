// The providers that the configuration can name. A new one is added here.

import type { ProviderDefinition } from "./provider.ts";
import { smpp } from "./smpp/index.ts";
import { telnyx } from "./telnyx/index.ts";
import { signalwire, twilio } from "./twilio/index.ts";

export const providers: readonly ProviderDefinition[] = [twilio, signalwire, telnyx, smpp];
