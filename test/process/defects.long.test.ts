// The matrix can fail: every planted defect, of any matrix, wraps exports that exist.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { defects } from "../support/process/mail/defects.ts";
import { caseNamed, catchesAll, tell, uncaught } from "../support/process/mail/scenario.ts";
import { type MailTestServers, openMailSetup, startMailServers } from "../support/process/mail/servers.ts";
import { plantable, plantNamed } from "../support/process/plant.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describe("planted wrappers", () => {
  it.each([...plantable])("%s wraps exports that exist", async (name) => {
    const wraps = Object.entries(plantNamed(name)(() => undefined));
    expect(wraps).not.toEqual([]);
    for (const [file, wrappers] of wraps) {
      const module = (await import(new URL(`../../${file}`, import.meta.url).href)) as object;
      expect(Object.keys(module)).toEqual(expect.arrayContaining(Object.keys(wrappers)));
    }
  });

  it("do not count as caught when they never ran, or when another invariant is broken", () => {
    const found = [{ invariant: "lost" }];
    expect(uncaught({ by: ["lost"] }, found, true)).toBe(null);
    expect(uncaught({ by: ["lost"] }, found, false)).toBe("its wrappers never changed anything");
    expect(uncaught({ by: ["order"] }, found, true)).toMatch(/^none of order is broken/);
  });
});

describeReal("planted defects", missing, () => {
  let servers: MailTestServers;
  beforeAll(async () => {
    // However slow the machine: who forgets that an answer was to wait is far too early.
    servers = await startMailServers(Object.keys(defects), 600);
  });
  afterAll(() => servers?.close());

  const patience = 15_000;
  catchesAll({
    defects,
    patience,
    async tell(caught, { plant, ...more }, { name }) {
      const { place: options, scenario } = caseNamed(caught);
      const setup = await openMailSetup(servers, { user: name, ...options });
      const waits = options.agent === "late" ? { patience } : {};
      try {
        return await tell(setup, { ...scenario, ...waits, ...more, plant: [...(scenario.plant ?? []), ...plant] });
      } finally {
        await setup.close();
      }
    },
  });
});
