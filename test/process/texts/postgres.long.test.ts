// The daemon of texts on PostgreSQL dies at every failpoint once, and is started again.

import { firstOfEach } from "../../support/process/mail/scenario.ts";
import { matrixOfTexts, textCases } from "../../support/process/sms/scenario.ts";
import { describePostgres } from "../../support/store/postgres.ts";

await describePostgres("texts on PostgreSQL", (schemaUrl) => matrixOfTexts(firstOfEach(textCases), schemaUrl));
