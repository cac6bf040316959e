// A daemon that starts again on its store: the sockets of the calls are gone, the calls are not.

import { join } from "node:path";
import { expect, it } from "vitest";
import { openStore } from "../../../src/app.ts";
import { insertSession } from "../../../src/calls/rows.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { readSession } from "../../../src/store/tables/sessions.ts";
import { listen } from "../../support/pipeline/stage.ts";
import { newFolder } from "../../support/resources.ts";
import { conversation } from "../../support/store/databases.ts";

it("treats every open call as lost when the store is opened", async () => {
  const folder = newFolder();
  const config = { store: { kind: "sqlite", file: join(folder, "store.db") } } as const;
  const first = await openStore(config, systemClock, listen().log, standardTiming);
  await first.db.tx(async (q) => {
    await conversation(q, "k");
    await insertSession(q, { channel: "c", id: "s", conversation: "k", node: "before" });
  });
  await first.db.close();
  first.unlock();
  const { db, unlock } = await openStore(config, systemClock, listen().log, standardTiming);
  expect(await db.read((q) => readSession(q, "c", "s"))).toMatchObject({ state: "lost", openings: 1 });
  expect(await db.read((q) => q.all("SELECT DISTINCT node FROM lanes"))).toEqual([{ node: null }]);
  await db.close();
  unlock();
});
