// The process dies at every failpoint of escalations once, and is started again.

import { firstOfEach } from "./cases.ts";
import { escalationCases } from "./escalation-cases.ts";
import { matrixOfEscalations } from "./escalations.ts";

matrixOfEscalations(firstOfEach(escalationCases));
