// The process dies at every failpoint of texts once, and is started again.

import { firstOfEach } from "../support/process/mail/cases.ts";
import { textCases } from "../support/process/sms/cases.ts";
import { matrixOfTexts } from "../support/process/sms/matrix.ts";

matrixOfTexts(firstOfEach(textCases));
