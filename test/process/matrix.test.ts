// The process dies at every failpoint once, and is started again.

import { cases, firstOfEach } from "./cases.ts";
import { matrix } from "./matrix.ts";

matrix(firstOfEach(cases));
