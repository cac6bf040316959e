// Violations of the rule for states (`states.ts`), and code that it permits.

import type { Plant } from "./rules.ts";

const plant = (text: string, expected: string | null): Plant => [
  "stateWrites",
  "src/store/a.ts",
  text,
  expected === null ? null : `src/store/a.ts: ${expected}`,
];
const statement = (sql: string): string => `q.run(\`${sql}\`);`;

/** Statements, with the assignments that are reported. */
const unchecked = [
  ["UPDATE turns\n  SET open = 0, state = 'sent' WHERE id = $1", "open = 0, state = 'sent'"],
  ["UPDATE ${table} SET ${more}, state = $2", "?, state = $2"],
  [
    "INSERT INTO drafts (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET state = excluded.state",
    "state = excluded.state",
  ],
  ["UPDATE events AS e SET state = 'held'", "state = 'held'"],
  ["UPDATE events e SET state = 'held'", "state = 'held'"],
  ["UPDATE platform_webhooks SET due_at = NULL, state = 'lost'", "due_at = NULL, state = 'lost'"],
  ["UPDATE turns SET a = (SELECT b FROM c WHERE d), state = 'failed'", "a = (SELECT b FROM c"],
  ["UPDATE drafts SET (open, state) = (0, 'sent') WHERE id = $1", "(open, state) = (0, 'sent')"],
  ["UPDATE drafts SET open = 0, ${part} WHERE id = $1", "open = 0, ?"],
  ["UPDATE drafts SET open = 0${part} WHERE id = $1", "open = 0?"],
  ['UPDATE drafts SET ${assigned("state")} WHERE id = $1', "? state"],
  // In lower case, with the words and the quotation marks that both databases permit.
  ["update turns set state = 'sent' where id = $1", "state = 'sent'"],
  ["UPDATE ONLY turns SET state = 'sent'", "state = 'sent'"],
  ["UPDATE OR REPLACE turns SET state = 'sent'", "state = 'sent'"],
  ["UPDATE main.turns SET state = 'sent'", "state = 'sent'"],
  ['UPDATE "turns" SET "state" = \'sent\'', "state = 'sent'"],
  ["UPDATE [turns] SET [state] = 'sent'", "state = 'sent'"],
  ["UPDATE turns SET open = 0, -- not WHERE\n STATE = 'sent'", "open = 0, \n STATE = 'sent'"],
  // In a text of its own.
  ["UPDATE turns SET open = 0${isHeld ? `, state = 'held'` : \"\"} WHERE id = $1", "open = 0 , state = 'held'"],
  ['UPDATE turns SET open = 0${parts.map((part) => ", state = 1")}', "open = 0? , state = 1"],
  ["WITH moved AS (INSERT INTO log (id) VALUES (1)) UPDATE turns SET state = 'sent'", "state = 'sent'"],
  [
    "INSERT INTO log (id) VALUES (1) ON CONFLICT DO NOTHING; INSERT INTO main.turns (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET state = 'sent'",
    "state = 'sent'",
  ],
] as const;

const moved = (member: string): string => `moves("drafts", "sent", { ${member}, where });`;
const elsewhere = "the assignments of a move are one text in its place";

export const statePlants: readonly Plant[] = [
  ...unchecked.map(([sql, set]) => plant(statement(sql), `writes a state unchecked: SET ${set}`)),
  plant('q.run(\'UPDATE "turns" SET "state" = 1\')', "writes a state unchecked: SET state = 1"),
  plant('q.run("UPDATE turns SET \\"state\\" = 1")', "writes a state unchecked: SET state = 1"),
  plant(moved(`set: "open = 0, state = 'held'"`), "writes a state unchecked: SET open = 0, state = 'held'"),
  plant(moved("set: `open = 0${part}`"), "writes a state unchecked: SET open = 0?"),
  plant(
    moved("set: `open = 0${isHeld ? \", state = 'held'\" : ''}`"),
    "writes a state unchecked: SET open = 0 , state = 'held'",
  ),
  plant(
    `const ended = { set: "state = 'held'" };\nmoves("drafts", "sent", { ...ended });`,
    "writes a state unchecked: SET state = 'held'",
  ),
  ...[
    ["set", "set"],
    ["set: changes", "set: changes"],
    ["set: `open = 0, ` + changes", "set: `open = 0, ` + changes"],
    ["set: isHeld ? `open = 1` : `open = 0`", "set: isHeld ? `open = 1` : `open = 0`"],
  ].map(([member = "", found]) => plant(moved(member), `${found}: ${elsewhere}`)),
  plant(
    "const move = { where };\nmove.set = changes;\nmovesToAny(`drafts`, { ...move });",
    `.set = changes: ${elsewhere}`,
  ),
  plant(
    statement(`WITH moved AS (\${${moved("set: changes").slice(0, -1)}} RETURNING id)`),
    `set: changes: ${elsewhere}`,
  ),
  plant(
    statement(`WITH moved AS (\${${moved(`set: "state = 'held'"`).slice(0, -1)}} RETURNING id)`),
    "writes a state unchecked: SET state = 'held'",
  ),
  plant('moves("drafts", "sent", move);', `move: ${elsewhere}`),
  plant('movesToAny("drafts", move);', `move: ${elsewhere}`),
  ...[
    "UPDATE turns SET open = 0 WHERE state = 'failed'",
    "update turns set open = 0 where state = 'failed'",
    "UPDATE turns SET open = 0 FROM given WHERE turns.state = given.state",
    "UPDATE channels SET state = 'ready'",
    'UPDATE turns SET open = 0, ${stateWhere("turns", "asking")}',
    "UPDATE turns SET open = ${open}, due_at = now_ms() + ${ms}, reason = '${reason}'",
    'UPDATE turns SET open = 0${isHeld ? ", reason = 1" : ""} WHERE state = $1',
    "INSERT INTO pauses (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET until = excluded.until ${where}",
    "INSERT INTO turns (id) SELECT id FROM a ON CONFLICT DO NOTHING",
  ].map((sql) => plant(statement(sql), null)),
  plant("// UPDATE turns SET state = 'sent'\nconst quote = /[\"'`]/;\nconst a = b / c;", null),
  plant('const settings = { set };\nq.run("SELECT 1");', null),
  plant(moved('set: "open = 0"'), null),
  ...(
    [
      ["INSERT INTO replies (id, state, text) VALUES ($1, 'failed', 'ready')", "replies", "failed", "ready, composed"],
      ["INSERT INTO turns (id, state) VALUES`,\n  `(:id, 'answered', now_ms())", "turns", "answered", "waiting"],
      [
        "INSERT INTO events (id, kind, state)\n  SELECT id, COALESCE(a, 'b'), CASE WHEN copy = 'x' THEN 'held' ELSE 'stored' END FROM a",
        "events",
        "held",
        "stored, ignored",
      ],
      [
        "INSERT INTO escalations (number, state) SELECT\n  nextval('a'), -- only: postgres\n  1, -- only: sqlite\n  'closed'",
        "escalations",
        "closed",
        "open",
      ],
      ['insert or ignore into "turns" (id, "state") values (1, \'answered\')', "turns", "answered", "waiting"],
    ] as const
  ).map(([sql, table, state, initial]) =>
    plant(statement(sql), `inserts ${table} in the state ${state}: initial are ${initial}`),
  ),
  ...[
    "INSERT OR REPLACE INTO turns (id) VALUES (1)",
    "replace into turns (id) values (1)",
    "REPLACE INTO main.turns SELECT 1",
  ].map((sql) => plant(statement(sql), "replaces rows of turns, whatever their state is")),
  ...[
    "VALUES ($1, 'composed', 'failed')",
    "VALUES`,\n  `(:id, :state, 'failed')",
    "SELECT id, 'ready', 'failed' FROM a",
  ].map((row) => plant(statement(`INSERT INTO replies (id, state, text) ${row}`), null)),
];
