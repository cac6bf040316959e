// Kills the daemon of a mailbox at each of these cases, and states what is left of it after the next start.

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../../machine/debian.ts";
import type { Case } from "./cases.ts";
import { tell } from "./scenario.ts";
import { openPlace, startWorld, type World } from "./servers.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** Defines one test per case, on one Dovecot. */
export const matrix = (cases: readonly Case[]) =>
  describeReal("the daemon, killed and started again", missing, () => {
    const users = cases.map((_, index) => `m${index}`);
    let world: World;
    beforeAll(async () => {
      world = await startWorld(users);
    });
    afterAll(() => world?.close());

    for (const [index, { name, place: options, story }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 300_000 }, async () => {
        const place = await openPlace(world, { user: users[index] ?? "", ...options });
        try {
          expect(await tell(place, story)).toEqual([]);
        } finally {
          await place.close();
        }
      });
    }
  });
