// The process dies at every failpoint of escalations once, and is started again.

import { escalationCases, matrixOfEscalations } from "../../support/process/escalation/scenario.ts";
import { firstOfEach } from "../../support/process/mail/scenario.ts";

matrixOfEscalations(firstOfEach(escalationCases));
