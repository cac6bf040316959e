// Version 3 of the platform's file: what long lists need, so that a page deep in them and a search take no longer when
// there are many rows. Frozen, as every version is; how it is read says `shelves.ts` and `conversation-lists.ts`.

/** A full shelf becomes two halves; one that has become small is put to the one before it. */
const full = 2048;
const half = full / 2;
const small = 256;

interface List {
  readonly name: "people" | "conversations" | "changes";
  readonly table: "person" | "conversation";
  readonly time: "created_at" | "updated_at";
}

const lists: readonly List[] = [
  { name: "people", table: "person", time: "created_at" },
  { name: "conversations", table: "conversation", time: "created_at" },
  { name: "changes", table: "conversation", time: "updated_at" },
];

const counted = ({ name, time }: List, row: "new" | "old", by: "+ 1" | "- 1") => `
  UPDATE shelf SET rows = rows ${by} WHERE list = '${name}' AND agent_id = ${row}.agent_id AND (at, n) = (
    SELECT at, n FROM shelf WHERE list = '${name}' AND agent_id = ${row}.agent_id
      AND (at, n) <= (${row}.${time}, ${row}.n) ORDER BY at DESC, n DESC LIMIT 1);`;

/** The first shelf of a list has always been there and stays: every row has a shelf that begins before it. */
const kept = (list: List) => `
INSERT INTO shelf (list, agent_id, at, n, rows)
  SELECT '${list.name}', agent_id, iif(slice = 0, 0, at), iif(slice = 0, 0, n), rows FROM (
    SELECT agent_id, slice, ${list.time} AS at, n, min(place), count(*) AS rows FROM (
      SELECT *, (place - 1) / ${half} AS slice FROM (
        SELECT *, row_number() OVER (PARTITION BY agent_id ORDER BY ${list.time}, n) AS place FROM ${list.table}))
    GROUP BY agent_id, slice);
INSERT OR IGNORE INTO shelf (list, agent_id, at, n, rows) SELECT '${list.name}', id, 0, 0, 0 FROM agent;

CREATE TRIGGER ${list.name}_begun AFTER INSERT ON agent BEGIN
  INSERT INTO shelf (list, agent_id, at, n, rows) VALUES ('${list.name}', new.id, 0, 0, 0);
END;
CREATE TRIGGER ${list.name}_put AFTER INSERT ON ${list.table} BEGIN ${counted(list, "new", "+ 1")}
END;
CREATE TRIGGER ${list.name}_taken AFTER DELETE ON ${list.table} BEGIN ${counted(list, "old", "- 1")}
END;
CREATE TRIGGER ${list.name}_moved AFTER UPDATE OF ${list.time} ON ${list.table}
WHEN new.${list.time} <> old.${list.time} BEGIN ${counted(list, "old", "- 1")} ${counted(list, "new", "+ 1")}
END;
CREATE TRIGGER ${list.name}_split AFTER UPDATE OF rows ON shelf
WHEN new.list = '${list.name}' AND new.rows >= ${full} BEGIN
  INSERT INTO shelf (list, agent_id, at, n, rows)
    SELECT new.list, new.agent_id, ${list.time}, n, new.rows - ${half} FROM ${list.table}
    WHERE agent_id = new.agent_id AND (${list.time}, n) >= (new.at, new.n) ORDER BY ${list.time}, n LIMIT 1 OFFSET ${half};
  UPDATE shelf SET rows = ${half} WHERE list = new.list AND agent_id = new.agent_id AND at = new.at AND n = new.n;
END;
`;

/** The version before had no integer keys: what refers to a row by number must survive a VACUUM. */
const numbered = `
CREATE TABLE new_person (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  first_name TEXT NOT NULL,
  last_name TEXT NOT NULL,
  context TEXT,
  source TEXT,
  fk_id TEXT,
  fk_user_id TEXT,
  email TEXT,                      -- as given; compared in lower case
  phone_number TEXT,
  metadata TEXT,
  created_at INTEGER NOT NULL,
  anonymized INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO new_person SELECT rowid, id, agent_id, first_name, last_name, context, source, fk_id, fk_user_id, email,
  phone_number, metadata, created_at, anonymized FROM person;
DROP TABLE person;
ALTER TABLE new_person RENAME TO person;
CREATE INDEX person_agent ON person (agent_id, created_at);
CREATE INDEX person_fk_id ON person (agent_id, fk_id) WHERE fk_id IS NOT NULL;
CREATE INDEX person_fk_user_id ON person (agent_id, fk_user_id) WHERE fk_user_id IS NOT NULL;
CREATE INDEX person_email ON person (agent_id, lower(email)) WHERE email IS NOT NULL;
CREATE INDEX person_phone_number ON person (agent_id, phone_number) WHERE phone_number IS NOT NULL;
CREATE INDEX person_kept ON person (agent_id, created_at) WHERE anonymized = 0;

CREATE TABLE new_conversation (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  person_id TEXT NOT NULL REFERENCES person (id),
  channel TEXT NOT NULL CHECK (channel IN ('email', 'sms', 'voice', 'api')),
  mode TEXT NOT NULL CHECK (mode IN ('ai', 'manual')),
  status TEXT NOT NULL CHECK (status IN ('active', 'inactive', 'archived')),
  ai_conversation_id TEXT NOT NULL,
  title TEXT,
  context TEXT,
  introduction TEXT,
  state_id TEXT,
  metadata TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  last_message_at INTEGER NOT NULL, -- the newest message's time: the next one's is later
  ended_at INTEGER,                -- when its dialog ended by inactivity; a message begins another
  score REAL,
  anonymized INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO new_conversation SELECT rowid, id, agent_id, person_id, channel, mode, status, ai_conversation_id, title,
  context, introduction, state_id, metadata, created_at, updated_at, last_message_at, ended_at, score, anonymized
  FROM conversation;
DROP TABLE conversation;
ALTER TABLE new_conversation RENAME TO conversation;
CREATE INDEX conversation_idle ON conversation (last_message_at) WHERE ended_at IS NULL;
CREATE INDEX conversation_stale ON conversation (last_message_at) WHERE status = 'active';
CREATE INDEX conversation_person ON conversation (person_id, channel, status);
CREATE INDEX conversation_agent ON conversation (agent_id, created_at);
CREATE INDEX conversation_changed ON conversation (agent_id, updated_at);
CREATE INDEX conversation_kept ON conversation (agent_id, last_message_at) WHERE anonymized = 0;
`;

const shelves = `
-- How many rows of a list lie from this key (a time, and a row's number) up to the next shelf's.
CREATE TABLE shelf (
  list TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  n INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  PRIMARY KEY (list, agent_id, at, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER shelf_emptied AFTER UPDATE OF rows ON shelf
WHEN new.rows < old.rows AND new.rows < ${small} AND (new.at, new.n) <> (0, 0) BEGIN
  UPDATE shelf SET rows = rows + new.rows
    WHERE list = new.list AND agent_id = new.agent_id AND rows + new.rows <= ${half} AND (at, n) = (
      SELECT at, n FROM shelf WHERE list = new.list AND agent_id = new.agent_id AND (at, n) < (new.at, new.n)
      ORDER BY at DESC, n DESC LIMIT 1);
  DELETE FROM shelf WHERE list = new.list AND agent_id = new.agent_id AND at = new.at AND n = new.n
    AND (new.rows = 0 OR changes() > 0);
END;
`;

const personText = (row: string) =>
  `${row}first_name || ' ' || ${row}last_name || char(10) || coalesce(${row}email, '') || char(10)
    || coalesce(${row}phone_number, '')`;

/** The trigrams of a text's last characters are needed too, to find words of one or two. */
const ending = "|| char(10) || char(10)";

/** One index for both saves a commit half of its writes: people are at their number, titles at minus theirs. */
const searched = `
CREATE VIRTUAL TABLE wording USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'trigram');
CREATE VIRTUAL TABLE wording_part USING fts5vocab (wording, instance);
INSERT INTO wording (rowid, text) SELECT n, ${personText("")} ${ending} FROM person;
INSERT INTO wording (rowid, text) SELECT -n, title ${ending} FROM conversation WHERE title IS NOT NULL;

CREATE TRIGGER person_worded AFTER INSERT ON person BEGIN
  INSERT INTO wording (rowid, text) VALUES (new.n, ${personText("new.")} ${ending});
END;
CREATE TRIGGER person_reworded AFTER UPDATE OF first_name, last_name, email, phone_number ON person
WHEN ${personText("new.")} <> ${personText("old.")} BEGIN
  DELETE FROM wording WHERE rowid = new.n;
  INSERT INTO wording (rowid, text) VALUES (new.n, ${personText("new.")} ${ending});
END;
CREATE TRIGGER person_unworded AFTER DELETE ON person BEGIN DELETE FROM wording WHERE rowid = old.n; END;
CREATE TRIGGER conversation_worded AFTER INSERT ON conversation WHEN new.title IS NOT NULL BEGIN
  INSERT INTO wording (rowid, text) VALUES (-new.n, new.title ${ending});
END;
CREATE TRIGGER conversation_reworded AFTER UPDATE OF title ON conversation WHEN new.title IS NOT old.title BEGIN
  DELETE FROM wording WHERE rowid = -new.n;
  INSERT INTO wording (rowid, text) SELECT -new.n, new.title ${ending} WHERE new.title IS NOT NULL;
END;
CREATE TRIGGER conversation_unworded AFTER DELETE ON conversation WHEN old.title IS NOT NULL BEGIN
  DELETE FROM wording WHERE rowid = -old.n;
END;
`;

export const third = [numbered, shelves, ...lists.map(kept), searched].join("");
