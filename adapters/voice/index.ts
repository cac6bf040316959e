// The voice adapter answers and places phone calls.

import { voiceAdapter } from "./adapter.ts";
import { gather } from "./dialects/gather.ts";
import { jambonz } from "./dialects/jambonz.ts";
import { retell } from "./dialects/retell.ts";
import { telnyx } from "./dialects/telnyx.ts";
import { twilio } from "./dialects/twilio.ts";

export default voiceAdapter({
  name: "voice",
  dialects: [twilio, telnyx, retell, jambonz, gather],
  question: "Which provider connects the calls? `gather`: Twilio without a websocket, turn by turn.",
});
