// The process dies at every failpoint of escalations once, and is started again.

import { escalationCases, matrixOfEscalations } from "../support/process/escalation/cases.ts";
import { firstOfEach } from "../support/process/mail/cases.ts";

matrixOfEscalations(firstOfEach(escalationCases));
