// The daemon that finds a human dies on PostgreSQL at every failpoint once, and is started again.

import { escalationCases, matrixOfEscalations } from "../../support/process/escalation/scenario.ts";
import { firstOfEach } from "../../support/process/mail/scenario.ts";
import { describePostgres } from "../../support/store/postgres.ts";

await describePostgres("escalations on PostgreSQL", (schemaUrl) =>
  matrixOfEscalations(firstOfEach(escalationCases), schemaUrl),
);
