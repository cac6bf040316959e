// The daemon on PostgreSQL, killed before and after every durable step and started again: the new process finds that the killed
// one has ended, and continues its work at once.

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { cases as allCases, tell } from "../support/process/mail/scenario.ts";
import { type MailTestServers, openMailSetup, startMailServers } from "../support/process/mail/servers.ts";
import { needPostgres, newSchemaUrl } from "../support/store/postgres.ts";

const missing = (await need("dovecot-imapd", "/usr/sbin/dovecot")) ?? (await needPostgres());
/** Every failpoint, held drafts, and a node that wakes after its leases: what a mailbox does is the same on both databases. */
const cases = allCases.filter(({ name }) => !/ (2|3|create|late|move|renumbered)$/.test(name));
const users = cases.map((_, index) => `pg${index}`);

describeReal("the daemon on PostgreSQL, killed and started again", missing, () => {
  let servers: MailTestServers;
  beforeAll(async () => {
    servers = await startMailServers(users);
  });
  afterAll(async () => {
    await servers?.close();
  });

  for (const [index, { name, place: options, scenario }] of cases.entries()) {
    it.concurrent(`at ${name}`, { timeout: 600_000 }, async () => {
      const setup = await openMailSetup(servers, {
        ...options,
        user: users[index] ?? "",
        // Leases include it.
        timeout: "5s",
        postgres: await newSchemaUrl(),
      });
      // Two processes on one store are two nodes here, and no circumstance. A stalled one keeps its leases until they expire.
      const given = (scenario.plant ?? []).filter((name) => name !== "shared-store");
      const plant = name === "stalled holder" ? [...given, "short-takeover"] : given;
      try {
        expect(await tell(setup, { ...scenario, plant })).toEqual([]);
      } finally {
        await setup.close();
      }
    });
  }
});
