// The remaining cases of the crash matrix of escalations.

import { escalationCases, matrixOfEscalations } from "../../support/process/escalation/scenario.ts";
import { firstOfEach } from "../../support/process/mail/scenario.ts";

const first = firstOfEach(escalationCases);
matrixOfEscalations(escalationCases.filter((one) => !first.includes(one)));
