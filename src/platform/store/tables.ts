// Tables of the platform's database. Times are epoch milliseconds; JSON is stored as text.

const tables = `
CREATE TABLE agent (
  id TEXT PRIMARY KEY,
  organization_id TEXT NOT NULL,
  name TEXT NOT NULL,
  key_hash TEXT UNIQUE,            -- null: the agent is no longer defined, its key opens nothing
  definition TEXT,                 -- made by the administrator's command; null: from a file of agents
  seed TEXT,                       -- what such an agent's own secrets are made from
  replaced_hash TEXT               -- the key in the file that a rotation made void
) STRICT;

CREATE TABLE member (
  id TEXT PRIMARY KEY,
  organization_id TEXT NOT NULL,
  email TEXT NOT NULL,             -- in lower case
  created_at INTEGER NOT NULL,
  UNIQUE (organization_id, email)
) STRICT;

CREATE TABLE state (
  id TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  definition TEXT NOT NULL         -- as last defined: a change moves updated_at
) STRICT;

CREATE TABLE person (
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
CREATE INDEX person_agent ON person (agent_id, created_at);
CREATE INDEX person_fk_id ON person (agent_id, fk_id) WHERE fk_id IS NOT NULL;
CREATE INDEX person_fk_user_id ON person (agent_id, fk_user_id) WHERE fk_user_id IS NOT NULL;
CREATE INDEX person_email ON person (agent_id, lower(email)) WHERE email IS NOT NULL;
CREATE INDEX person_phone_number ON person (agent_id, phone_number) WHERE phone_number IS NOT NULL;
CREATE INDEX person_kept ON person (agent_id, created_at) WHERE anonymized = 0;

CREATE TABLE conversation (
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
CREATE INDEX conversation_idle ON conversation (last_message_at) WHERE ended_at IS NULL;
CREATE INDEX conversation_stale ON conversation (last_message_at) WHERE status = 'active';
CREATE INDEX conversation_person ON conversation (person_id, channel, status);
CREATE INDEX conversation_agent ON conversation (agent_id, created_at);
CREATE INDEX conversation_changed ON conversation (agent_id, updated_at);
CREATE INDEX conversation_kept ON conversation (agent_id, last_message_at) WHERE anonymized = 0;

CREATE TABLE message (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  conversation_id TEXT NOT NULL REFERENCES conversation (id),
  sender_role TEXT NOT NULL CHECK (sender_role IN ('conversation_user', 'assistant', 'manual_assistant')),
  question_id TEXT NOT NULL,       -- its own id on a question
  text TEXT NOT NULL,
  context TEXT,
  citations TEXT,
  open INTEGER NOT NULL,           -- 1 on a question that is being answered
  patient INTEGER NOT NULL,        -- 1 on a question whose asker looks for the answer later
  error TEXT,                      -- why a patient question has no answer
  created_at INTEGER NOT NULL,
  anonymized INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX message_conversation ON message (conversation_id, seq);
CREATE INDEX message_question ON message (question_id);
CREATE INDEX message_open ON message (seq) WHERE open = 1;

CREATE TABLE webhook (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  url TEXT NOT NULL,
  trigger TEXT NOT NULL,
  headers TEXT,
  secret TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'inactive')),
  defined INTEGER NOT NULL,        -- 1: from the agent's definition
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_agent ON webhook (agent_id, trigger);

CREATE TABLE delivery (
  id TEXT PRIMARY KEY,
  webhook_id TEXT NOT NULL REFERENCES webhook (id),
  conversation_id TEXT NOT NULL,
  trigger TEXT NOT NULL,
  body TEXT NOT NULL,              -- JSON, without the messages
  newest_seq INTEGER NOT NULL,     -- the conversation's newest message then; 0: none
  state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
  attempts INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  status INTEGER,
  error TEXT,
  created_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;
CREATE INDEX delivery_due ON delivery (webhook_id, due_at) WHERE state = 'pending';
CREATE INDEX delivery_webhook ON delivery (webhook_id, created_at);
CREATE INDEX delivery_conversation ON delivery (conversation_id);
CREATE INDEX delivery_ended ON delivery (ended_at) WHERE ended_at IS NOT NULL AND trigger <> 'escalation';

CREATE TABLE usage (
  scope TEXT NOT NULL,             -- an agent's or a person's id
  at INTEGER NOT NULL,
  conversations INTEGER NOT NULL,  -- running totals, this one and all that follow
  calls INTEGER NOT NULL,
  texts INTEGER NOT NULL,
  mails INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  seconds REAL NOT NULL,
  text_conversations INTEGER NOT NULL,
  mail_conversations INTEGER NOT NULL,
  questions INTEGER NOT NULL,
  PRIMARY KEY (scope, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE file (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  bytes BLOB NOT NULL,
  status TEXT CHECK (status IN ('processing', 'done', 'failed')),
  reason TEXT,                     -- why it cannot be read
  created_at INTEGER NOT NULL,
  added_at INTEGER
) STRICT;
CREATE INDEX file_agent ON file (agent_id, created_at);
CREATE INDEX file_processing ON file (id) WHERE status = 'processing';

-- Which rows of the full-text index are a file's: the index itself cannot be searched by it.
CREATE TABLE file_passage (
  passage INTEGER PRIMARY KEY,
  file TEXT NOT NULL
) STRICT;
CREATE INDEX file_passage_file ON file_passage (file);

CREATE VIRTUAL TABLE passage USING fts5 (
  agent_id UNINDEXED, file_id UNINDEXED, title, text, tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE escalation (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  conversation_id TEXT NOT NULL,
  message_id TEXT NOT NULL UNIQUE, -- the question that called for it
  topic TEXT NOT NULL,
  response TEXT NOT NULL,
  notified TEXT NOT NULL,          -- JSON: the recipients, and the delivery to each
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX escalation_agent ON escalation (agent_id, created_at);
CREATE INDEX escalation_conversation ON escalation (conversation_id);

CREATE TABLE message_file (
  id TEXT PRIMARY KEY,
  conversation_id TEXT NOT NULL,
  message_id TEXT,                 -- null until a message names it
  name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  bytes BLOB,                      -- null until it is uploaded
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX message_file_conversation ON message_file (conversation_id);
CREATE INDEX message_file_message ON message_file (message_id) WHERE message_id IS NOT NULL;

CREATE INDEX message_file_loose ON message_file (created_at) WHERE message_id IS NULL;

CREATE TABLE secret (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
`;

// Index of long lists, so that the cost of a page deep in a list, and of a search, does not grow with the number of rows;
// `lists.ts` and `conversations.ts` read it.

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

/** The first shelf of a list is there as long as its agent: every row has a shelf that begins before it. */
const kept = (list: List) => `
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

/** Entry n migrates from version n to version n + 1. */
export const versions: readonly string[] = [[tables, shelves, ...lists.map(kept), searched].join("")];
