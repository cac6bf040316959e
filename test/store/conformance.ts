// What every store must do, whichever database is under it: one suite, run against both.

import { describe } from "vitest";
import type { NewPlace } from "../support/store/databases.ts";
import { describeAttachments } from "./attachments.ts";
import { describeBegun } from "./begun.ts";
import { describeBehind } from "./behind.ts";
import { describeChannelPauses } from "./channel-pauses.ts";
import { describeDrain } from "./drain.ts";
import { describeEscalations } from "./escalations.ts";
import { describeFiles } from "./files.ts";
import { describeForgetting } from "./forgetting.ts";
import { describeHistory } from "./history.ts";
import { describeIntake } from "./intake.ts";
import { describeLanes } from "./lanes.ts";
import { describeOperators } from "./operators.ts";
import { describeOutbound } from "./outbound.ts";
import { describePlatformTold } from "./platform-told.ts";
import { describeRates } from "./rates.ts";
import { describeRepair } from "./repair.ts";
import { describeRouteFacts } from "./route-facts.ts";
import { describeScans } from "./scans.ts";
import { describeSchema } from "./schema.ts";
import { describeSessions } from "./sessions.ts";
import { describeTransactions } from "./transactions.ts";
import { describeTransitions } from "./transitions.ts";
import { describeWatching } from "./watching.ts";
import { describeWorklists } from "./worklists.ts";

/** Declares the suite. `place` gives the running test an empty store of its own. */
export function describeStore(name: string, place: NewPlace): void {
  describe(name, () => {
    describeTransactions(place);
    describeTransitions(place);
    describeSchema(place);
    describeIntake(place);
    describeLanes(place);
    describeChannelPauses(place);
    describeRepair(place);
    describeRouteFacts(place);
    describeOutbound(place);
    describeRates(place);
    describeOperators(place);
    describeHistory(place);
    describeDrain(place);
    describeScans(place);
    describeSessions(place);
    describeBegun(place);
    describeAttachments(place);
    describeEscalations(place);
    describeWatching(place);
    describeForgetting(place);
    describeFiles(place);
    describePlatformTold(place);
    describeBehind(place);
    describeWorklists(place);
  });
}
