// The rows of stage health: the recorded outages.

import { fromListed, listOf, ManyRows, type Query } from "../../store/driver.ts";
import { lockEscalations } from "../../store/tables/escalations.ts";
import { type Outage, recoveredKey } from "./decide.ts";

const outageRows = new ManyRows(
  "WITH given (about) AS (VALUES",
  "(:about)",
  `) SELECT given.about, (SELECT id FROM escalations WHERE escalations.about = given.about ORDER BY number DESC LIMIT 1) AS id
     FROM given`,
);

/** Returns the newest outages by subject, locked. */
export async function loadOutages(q: Query, abouts: readonly string[]): Promise<ReadonlyMap<string, Outage>> {
  const found = await outageRows.all<{ about: string; id: string | null }>(
    q,
    abouts.map((about) => ({ about })),
  );
  const ids = found.flatMap(({ id }) => id ?? []);
  if (ids.length === 0) return new Map();
  const rows = await lockEscalations(q, ids);
  const recovered = await q.all<{ key: string }>(
    `SELECT key ${fromListed("triggers", "key")}`,
    listOf(ids.map(recoveredKey)),
  );
  const keys = new Set(recovered.map(({ key }) => key));
  return new Map([...rows.values()].map((row) => [row.about, { row, recovered: keys.has(recoveredKey(row.id)) }]));
}
