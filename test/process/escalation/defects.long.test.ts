// The matrix of escalations can fail.

import { afterAll, beforeAll, describe } from "vitest";
import { escalationDefects } from "../../support/process/defects.ts";
import { escalationCaseNamed, tellEscalation } from "../../support/process/escalation/scenario.ts";
import {
  type EscalationTestServers,
  openEscalationSetup,
  startEscalationServers,
} from "../../support/process/escalation/servers.ts";
import { catchesAll } from "../../support/process/mail/scenario.ts";

describe("planted defects of escalations", () => {
  let servers: EscalationTestServers;
  beforeAll(async () => {
    servers = await startEscalationServers();
  });
  afterAll(() => servers?.close());

  catchesAll({
    defects: escalationDefects,
    timeout: 600_000,
    async tell(caught, planted, { number }) {
      const { scenario } = escalationCaseNamed(caught);
      const setup = await openEscalationSetup(servers);
      try {
        return await tellEscalation(setup, number, { ...scenario, ...planted });
      } finally {
        await setup.close();
      }
    },
  });
});
