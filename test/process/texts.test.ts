// The process dies at every failpoint of texts once, and is started again.

import { firstOfEach } from "../support/process/mail/cases.ts";
import { matrixOfTexts, textCases } from "../support/process/sms/cases.ts";

matrixOfTexts(firstOfEach(textCases));
