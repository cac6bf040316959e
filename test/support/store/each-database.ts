// The same tests on both databases.

import { describe } from "vitest";
import { describeReal } from "../machine/debian.ts";
import { type NewPlace, postgresPlace, sqlitePlace } from "./databases.ts";
import { needPostgres, sharedPostgres } from "./postgres.ts";

const missing = await needPostgres();

/** Declares the tests twice. `place` gives the running test an empty store of its own. */
export function onEachDatabase(declare: (place: NewPlace) => void): void {
  describe("sqlite", () => declare(sqlitePlace));
  describeReal("postgres", missing, () => declare(async () => postgresPlace(await sharedPostgres())));
}
