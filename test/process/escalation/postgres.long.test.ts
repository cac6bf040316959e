// The daemon that finds a human dies on PostgreSQL at every failpoint once, and is started again.

import { beforeAll } from "vitest";
import { describeReal } from "../../support/machine/debian.ts";
import { escalationCases, matrixOfEscalations } from "../../support/process/escalation/scenario.ts";
import { firstOfEach } from "../../support/process/mail/scenario.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../../support/store/postgres.ts";

describeReal("escalations on PostgreSQL", await needPostgres(), () => {
  let postgres: SharedPostgres;
  beforeAll(async () => {
    postgres = await sharedPostgres();
  });
  matrixOfEscalations(firstOfEach(escalationCases), async () => {
    const path = encodeURIComponent(`-c search_path=${await postgres.schema()}`);
    return `${postgres.url}?options=${path}`;
  });
});
