// The process dies at every failpoint of texts once, and is started again.

import { firstOfEach } from "./cases.ts";
import { textCases } from "./text-cases.ts";
import { matrixOfTexts } from "./texts.ts";

matrixOfTexts(firstOfEach(textCases));
