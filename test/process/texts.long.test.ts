// The remaining cases of the crash matrix of texts.

import { firstOfEach } from "../support/process/mail/cases.ts";
import { matrixOfTexts, textCases } from "../support/process/sms/cases.ts";

const first = firstOfEach(textCases);
matrixOfTexts(textCases.filter((one) => !first.includes(one)));
