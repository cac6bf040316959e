// The process dies at every failpoint of texts once, and is started again.

import { firstOfEach } from "../../support/process/mail/scenario.ts";
import { matrixOfTexts, textCases } from "../../support/process/sms/scenario.ts";

matrixOfTexts(firstOfEach(textCases));
