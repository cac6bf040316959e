// The remaining cases of the crash matrix of texts.

import { firstOfEach } from "./cases.ts";
import { textCases } from "./text-cases.ts";
import { matrixOfTexts } from "./texts.ts";

const first = firstOfEach(textCases);
matrixOfTexts(textCases.filter((one) => !first.includes(one)));
