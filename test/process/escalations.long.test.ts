// The remaining cases of the crash matrix of escalations.

import { firstOfEach } from "./cases.ts";
import { escalationCases } from "./escalation-cases.ts";
import { matrixOfEscalations } from "./escalations.ts";

const first = firstOfEach(escalationCases);
matrixOfEscalations(escalationCases.filter((one) => !first.includes(one)));
