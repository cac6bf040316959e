// Escalations, their contacts and notifications, and the state of the platform's conversations.

export const escalations = /* sql */ `
CREATE SEQUENCE escalation_numbers; -- only: postgres

CREATE TABLE escalations (
  id TEXT PRIMARY KEY,
  number BIGINT NOT NULL UNIQUE,
  about TEXT NOT NULL,
  conversation TEXT REFERENCES conversations (id),
  channel TEXT NOT NULL,
  agent TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'acknowledged', 'closed')),
  cause TEXT NOT NULL,
  topic TEXT,
  reason TEXT NOT NULL,
  tier BIGINT NOT NULL DEFAULT 0,
  entered_at BIGINT NOT NULL,
  notified_at BIGINT,
  due_at BIGINT,
  acknowledged_by TEXT,
  acknowledged_contact TEXT,
  acknowledged_at BIGINT,
  opened_at BIGINT NOT NULL,
  closed_at BIGINT,
  closed_by TEXT
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE UNIQUE INDEX escalations_live ON escalations (about) WHERE state <> 'closed';
CREATE INDEX escalations_due ON escalations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX escalations_about ON escalations (about, opened_at);
CREATE INDEX escalations_conversation ON escalations (conversation);
CREATE INDEX escalations_state ON escalations (state, id);
CREATE INDEX escalations_kept ON escalations (channel, closed_at) WHERE closed_by IS NOT NULL;

CREATE TABLE sources (
  key TEXT PRIMARY KEY,
  escalation TEXT NOT NULL REFERENCES escalations (id),
  source TEXT NOT NULL,
  detail TEXT,
  noticed_at BIGINT NOT NULL
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX sources_escalation ON sources (escalation);

CREATE TABLE contacts (
  id TEXT PRIMARY KEY,
  escalation TEXT NOT NULL REFERENCES escalations (id),
  person TEXT NOT NULL,
  name TEXT NOT NULL,
  way TEXT NOT NULL CHECK (way IN ('sms', 'email', 'webhook')),
  address TEXT NOT NULL,
  channel TEXT NOT NULL,
  conversation TEXT REFERENCES conversations (id),
  link TEXT UNIQUE,
  link_until BIGINT,
  UNIQUE (escalation, way, address)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX contacts_address ON contacts (channel, address);
CREATE INDEX contacts_conversation ON contacts (conversation) WHERE conversation IS NOT NULL;

CREATE TABLE notices (
  id TEXT PRIMARY KEY,
  contact TEXT NOT NULL REFERENCES contacts (id),
  kind TEXT NOT NULL CHECK (kind IN ('opened', 'again', 'acknowledged', 'customer', 'said')),
  subject TEXT NOT NULL,
  text TEXT,
  due_at BIGINT,
  reply TEXT REFERENCES replies (id),
  made_at BIGINT NOT NULL,
  written_at BIGINT,
  UNIQUE (contact, kind, subject)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX notices_due ON notices (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX notices_reply ON notices (reply) WHERE reply IS NOT NULL;

CREATE TABLE watches (
  conversation TEXT PRIMARY KEY REFERENCES conversations (id),
  channel TEXT NOT NULL,
  mode TEXT,
  mark TEXT,
  position BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT,
  looks BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX watches_due ON watches (channel, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE intakes (
  agent TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('escalation', 'message')),
  body TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('stored', 'done', 'lost')),
  attempts BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (agent, id)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX intakes_due ON intakes (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX intakes_kept ON intakes (agent, received_at) WHERE body <> '';

CREATE TABLE registrations (
  agent TEXT NOT NULL,
  trigger_name TEXT NOT NULL,
  url TEXT NOT NULL,
  digest TEXT NOT NULL,
  platform_id TEXT,
  secret TEXT,
  asked_at BIGINT NOT NULL,
  PRIMARY KEY (agent, trigger_name, url)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
`;
