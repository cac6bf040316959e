// The records of one person.

import { expect, it } from "vitest";
import { findPerson } from "../../src/store/person/find.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { fresh, onEachDatabase } from "../support/store/databases.ts";

onEachDatabase((newDatabase) => {
  it("are found for a person who has sent more messages than a function takes arguments", async () => {
    const db = await fresh(newDatabase);
    const count = 200_000;
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      await q.run(
        `INSERT INTO events (channel, external_id, kind, state, sender, body, due_at, received_at)
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
         SELECT 'c', 'm' || n, 'message', 'ignored', 'bomb@example.org', '{}', 0, 0 FROM numbers`,
        count,
      );
    });
    const { events } = await db.read((q) => findPerson(q, ["bomb@example.org"]));
    expect(events).toHaveLength(count);
  });
});
