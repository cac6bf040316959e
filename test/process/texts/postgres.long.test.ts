// The daemon of texts on PostgreSQL dies at every failpoint once, and is started again.

import { beforeAll } from "vitest";
import { describeReal } from "../../support/machine/debian.ts";
import { firstOfEach } from "../../support/process/mail/scenario.ts";
import { matrixOfTexts, textCases } from "../../support/process/sms/scenario.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../../support/store/postgres.ts";

describeReal("texts on PostgreSQL", await needPostgres(), () => {
  let postgres: SharedPostgres;
  beforeAll(async () => {
    postgres = await sharedPostgres();
  });
  matrixOfTexts(firstOfEach(textCases), async () => {
    const path = encodeURIComponent(`-c search_path=${await postgres.schema()}`);
    return `${postgres.url}?options=${path}`;
  });
});
