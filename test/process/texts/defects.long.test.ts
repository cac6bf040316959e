// The matrix of texts can fail.

import { afterAll, beforeAll, describe } from "vitest";
import { textDefects } from "../../support/process/defects.ts";
import { catchesAll } from "../../support/process/mail/scenario.ts";
import { runTexts, textCaseNamed } from "../../support/process/sms/scenario.ts";
import { openSmsSetup, type SmsTestServers, startSmsServers } from "../../support/process/sms/servers.ts";

describe("planted defects of texts", () => {
  let servers: SmsTestServers;
  beforeAll(async () => {
    servers = await startSmsServers();
  });
  afterAll(() => servers?.close());

  catchesAll({
    defects: textDefects,
    async tell(caught, planted, { number }) {
      const { place: options, scenario } = textCaseNamed(caught);
      const setup = await openSmsSetup(servers, options);
      try {
        return await runTexts(setup, number, { ...scenario, ...planted });
      } finally {
        await setup.close();
      }
    },
  });
});
