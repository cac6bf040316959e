// The remaining cases of the crash matrix: before and after every durable step, in every circumstance.

import { cases, firstOfEach, matrix } from "../support/process/mail/scenario.ts";

const first = firstOfEach(cases);
matrix(cases.filter((one) => !first.includes(one)));
