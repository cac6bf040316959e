// The process dies at every failpoint once, and is started again.

import { cases, firstOfEach, matrix } from "../support/process/mail/scenario.ts";

matrix(firstOfEach(cases));
