// The remaining cases of the crash matrix of texts.

import { firstOfEach } from "../../support/process/mail/scenario.ts";
import { matrixOfTexts, textCases } from "../../support/process/sms/scenario.ts";

const first = firstOfEach(textCases);
matrixOfTexts(textCases.filter((one) => !first.includes(one)));
