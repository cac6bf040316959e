// Escalations, their triggers, notification targets and notifications, the state of the platform's conversations, and the
// actions of operators.

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
  acknowledged_target TEXT,
  acknowledged_at BIGINT,
  opened_at BIGINT NOT NULL,
  from_seq BIGINT NOT NULL DEFAULT 0,
  closed_at BIGINT,
  closed_by TEXT
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE UNIQUE INDEX escalations_live ON escalations (about) WHERE state <> 'closed';
CREATE INDEX escalations_due ON escalations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX escalations_ahead ON escalations ((CASE WHEN notified_at > entered_at THEN notified_at ELSE entered_at END))
  WHERE due_at IS NOT NULL;
CREATE INDEX escalations_about ON escalations (about, number);
CREATE INDEX escalations_conversation ON escalations (conversation);
CREATE INDEX escalations_state ON escalations (state, number);
CREATE INDEX escalations_kept ON escalations (channel, closed_at) WHERE closed_by IS NOT NULL;

CREATE TABLE triggers (
  key TEXT PRIMARY KEY,
  escalation TEXT NOT NULL REFERENCES escalations (id),
  source TEXT NOT NULL,
  detail TEXT,
  recorded_at BIGINT NOT NULL
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX triggers_escalation ON triggers (escalation);

CREATE TABLE notification_targets (
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
CREATE INDEX notification_targets_address ON notification_targets (channel, address);
CREATE INDEX notification_targets_conversation ON notification_targets (conversation) WHERE conversation IS NOT NULL;

CREATE TABLE notifications (
  id TEXT PRIMARY KEY,
  target TEXT NOT NULL REFERENCES notification_targets (id),
  kind TEXT NOT NULL CHECK (kind IN ('opened', 'reminder', 'acknowledged', 'customer', 'message')),
  subject TEXT NOT NULL,
  text TEXT,
  due_at BIGINT,
  reply TEXT REFERENCES replies (id),
  made_at BIGINT NOT NULL,
  written_at BIGINT,
  left_behind BIGINT NOT NULL DEFAULT 0,
  UNIQUE (target, kind, subject, left_behind)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX notifications_due ON notifications (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX notifications_ahead ON notifications (made_at) WHERE due_at IS NOT NULL;
CREATE INDEX notifications_written ON notifications (written_at) WHERE written_at IS NOT NULL;
CREATE INDEX notifications_reply ON notifications (reply) WHERE reply IS NOT NULL;

CREATE TABLE polls (
  conversation TEXT PRIMARY KEY REFERENCES conversations (id),
  channel TEXT NOT NULL,
  mode TEXT,
  mark TEXT,
  position BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT,
  failures BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX polls_due ON polls (channel, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE platform_webhooks (
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
CREATE INDEX platform_webhooks_due ON platform_webhooks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX platform_webhooks_kept ON platform_webhooks (agent, received_at) WHERE body <> '';

CREATE TABLE webhook_registrations (
  agent TEXT NOT NULL,
  trigger_name TEXT NOT NULL,
  url TEXT NOT NULL,
  digest TEXT NOT NULL,
  platform_id TEXT,
  secret TEXT,
  requested_at BIGINT NOT NULL,
  PRIMARY KEY (agent, trigger_name, url)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE actions (
  id INTEGER PRIMARY KEY, -- only: sqlite
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- only: postgres
  action TEXT NOT NULL,
  actor TEXT NOT NULL,
  detail TEXT,
  channel TEXT NOT NULL,
  conversation TEXT REFERENCES conversations (id),
  event BIGINT,
  draft TEXT,
  made_at BIGINT NOT NULL
);
CREATE INDEX actions_conversation ON actions (conversation, id) WHERE conversation IS NOT NULL;
CREATE INDEX actions_event ON actions (event) WHERE event IS NOT NULL;
CREATE INDEX actions_kept ON actions (channel, made_at);
`;
