// A page of the file is damaged after the store was opened: the store names it, although other tables still work.

import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { migrate } from "../../../src/store/migrate.ts";
import { proveWritable } from "../../../src/store/operators/overview.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { newFolder } from "../../support/resources.ts";
import { damageTable } from "../../support/store/damage.ts";

it.each(["tx", "read"] as const)("is reported after a statement of %s has met it", async (how) => {
  const file = join(newFolder(), "store.db");
  const sound = openSqlite(file, Date.now);
  await migrate(sound);
  await sound.close();
  damageTable(file, "raw_messages");
  const db = openSqlite(file, Date.now);
  onTestFinished(() => db.close());
  await db.tx(proveWritable);
  expect(db.damage()).toBeNull();
  await expect(db[how]((q) => q.all("SELECT * FROM raw_messages"))).rejects.toThrow("is damaged");
  expect(db.damage()).toMatch(/^the store .+store\.db is damaged .+ Remedy: /);
  await db.tx(proveWritable);
});
