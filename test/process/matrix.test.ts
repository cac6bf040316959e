// The process dies at every failpoint once, and is started again.

import { cases, firstOfEach } from "../support/process/mail/cases.ts";
import { matrix } from "../support/process/mail/matrix.ts";

matrix(firstOfEach(cases));
