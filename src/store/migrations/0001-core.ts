// The first schema. All times are epoch milliseconds; JSON is stored as text; ids are text, except the
// arrival number of events.

export const core = /* sql */ `
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  holder TEXT,
  token BIGINT NOT NULL DEFAULT 0,
  until BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE installations (
  id TEXT PRIMARY KEY,
  number BIGINT NOT NULL UNIQUE,
  cause TEXT NOT NULL CHECK (cause IN ('new', 'restored', 'older', 'copied', 'lost', 'gone')),
  table_id BIGINT,
  since BIGINT NOT NULL
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE secrets (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  updated_at BIGINT NOT NULL
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE logins (
  hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('link', 'session')),
  made_at BIGINT NOT NULL,
  until BIGINT NOT NULL
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE channels (
  id TEXT PRIMARY KEY,
  since BIGINT NOT NULL DEFAULT 0,
  cursor TEXT,
  cursor_at BIGINT,
  -- When messages that wait under its cap are looked at again: those of preferred senders, and of others.
  preferred_until BIGINT NOT NULL DEFAULT 0,
  others_until BIGINT NOT NULL DEFAULT 0,
  -- Our default address, where opt-outs apply to single addresses of ours; else NULL.
  own_address TEXT
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE send_pauses (
  channel TEXT NOT NULL,
  sender TEXT NOT NULL,
  cause TEXT NOT NULL CHECK (cause IN ('unreachable', 'login', 'rate', 'set-up')),
  failures BIGINT NOT NULL,
  until BIGINT NOT NULL,
  by_provider BIGINT NOT NULL,
  probe TEXT,
  reason TEXT NOT NULL,
  PRIMARY KEY (channel, sender)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE channel_pauses (
  channel TEXT PRIMARY KEY,
  code TEXT NOT NULL CHECK (code IN ('operator', 'loops', 'replies')),
  reason TEXT NOT NULL,
  event BIGINT,
  since BIGINT NOT NULL,
  until BIGINT
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE own_addresses (
  address TEXT NOT NULL,
  channel TEXT NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (address, channel)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX own_addresses_channel ON own_addresses (channel);

CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  settings TEXT NOT NULL,
  read_at BIGINT NOT NULL
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE rates (
  name TEXT PRIMARY KEY,
  arrival BIGINT NOT NULL DEFAULT 0,
  penalty_until BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE blobs (
  id TEXT PRIMARY KEY,
  bytes BLOB NOT NULL, -- only: sqlite
  bytes BYTEA NOT NULL, -- only: postgres
  stored_at BIGINT NOT NULL
);

CREATE INDEX blobs_stored ON blobs (stored_at);

CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  channel TEXT NOT NULL,
  agent TEXT NOT NULL,
  person TEXT NOT NULL,
  person_name TEXT,
  via TEXT,
  subject TEXT,
  token TEXT NOT NULL UNIQUE,
  platform_id TEXT,
  opened_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX conversations_kept ON conversations (channel, seen_at) WHERE person <> '';
CREATE INDEX conversations_person ON conversations (channel, person);
CREATE INDEX conversations_platform ON conversations (platform_id) WHERE platform_id IS NOT NULL;

CREATE TABLE participants (
  conversation TEXT NOT NULL REFERENCES conversations (id),
  address TEXT NOT NULL,
  PRIMARY KEY (conversation, address)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE events (
  id INTEGER PRIMARY KEY, -- only: sqlite
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- only: postgres
  channel TEXT NOT NULL,
  external_id TEXT NOT NULL,
  fingerprint TEXT,
  cited TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('message', 'delivery', 'session')),
  state TEXT NOT NULL CHECK (state IN ('stored', 'routed', 'ignored', 'held', 'failed')),
  code TEXT,
  reason TEXT,
  sender TEXT,
  subject TEXT,
  preferred BIGINT NOT NULL DEFAULT 1,
  queue TEXT,
  body TEXT NOT NULL,
  conversation TEXT REFERENCES conversations (id),
  turn TEXT,
  attempts BIGINT NOT NULL DEFAULT 0,
  postponed BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL,
  sent_at BIGINT,
  received_at BIGINT NOT NULL,
  UNIQUE (channel, external_id)
);
CREATE UNIQUE INDEX events_fingerprint ON events (channel, fingerprint) WHERE fingerprint IS NOT NULL;
CREATE INDEX events_turn ON events (turn) WHERE turn IS NOT NULL;
CREATE INDEX events_stored ON events (channel, postponed, id) WHERE state = 'stored';
CREATE INDEX events_sender ON events (channel, sender, id) WHERE state = 'stored' AND postponed = 1;
CREATE INDEX events_capped ON events (channel, preferred, queue, id) WHERE state = 'stored' AND code = 'cap-channel';
CREATE INDEX events_due ON events (channel, due_at) WHERE state = 'stored' AND postponed = 1;
CREATE INDEX events_stuck ON events (channel, state) WHERE state IN ('held', 'failed');
CREATE INDEX events_consent ON events (channel, sender) WHERE code IN ('opt-out', 'opt-in');
CREATE INDEX events_listed ON events (state, id) WHERE state IN ('ignored', 'held', 'failed');
CREATE INDEX events_kept ON events (channel, received_at, kind, state) WHERE body <> '{}';
CREATE INDEX events_conversation ON events (conversation, id) WHERE conversation IS NOT NULL;
-- For the search by parts of addresses and subjects: read from its newest end, and new entries are appended to it.
CREATE INDEX events_searched ON events (received_at, channel, sender, subject, cited) WHERE kind = 'message'; -- only: sqlite
CREATE INDEX events_searched ON events (received_at, channel, sender, subject, cited, id) WHERE kind = 'message'; -- only: postgres

-- Messages as they were received, in the order of arrival. The digest detects damage.
CREATE TABLE raw_messages (
  channel TEXT NOT NULL,
  event BIGINT NOT NULL REFERENCES events (id),
  digest TEXT NOT NULL,
  bytes BLOB NOT NULL, -- only: sqlite
  bytes BYTEA NOT NULL, -- only: postgres
  PRIMARY KEY (channel, event)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE attachments (
  event BIGINT NOT NULL REFERENCES events (id),
  position BIGINT NOT NULL,
  channel TEXT NOT NULL,
  name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size BIGINT,
  blob TEXT REFERENCES blobs (id),
  ref TEXT,
  named BIGINT NOT NULL,
  meant BIGINT NOT NULL DEFAULT 1,
  attempts BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT,
  holder TEXT,
  reason TEXT,
  PRIMARY KEY (event, position)
);
CREATE INDEX attachments_blob ON attachments (blob) WHERE blob IS NOT NULL;
CREATE INDEX attachments_kept ON attachments (channel, event) WHERE (blob IS NOT NULL OR ref IS NOT NULL);
CREATE INDEX attachments_due ON attachments (channel, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE citations (
  channel TEXT NOT NULL,
  external_id TEXT NOT NULL,
  conversation TEXT NOT NULL REFERENCES conversations (id),
  draft TEXT,
  PRIMARY KEY (channel, external_id, conversation)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE sessions (
  channel TEXT NOT NULL,
  id TEXT NOT NULL,
  conversation TEXT NOT NULL REFERENCES conversations (id),
  state TEXT NOT NULL CHECK (state IN ('open', 'lost', 'closed')),
  node TEXT NOT NULL,
  openings BIGINT NOT NULL,
  transferring TEXT,
  reason TEXT,
  opened_at BIGINT NOT NULL,
  lost_at BIGINT,
  closed_at BIGINT,
  duration BIGINT,
  PRIMARY KEY (channel, id)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX sessions_live ON sessions (conversation) WHERE state <> 'closed';
CREATE INDEX sessions_node ON sessions (node) WHERE state = 'open';

-- The fencing tokens of the leases of lanes. A claim that is rolled back uses its token up: its holder may not know of the
-- rollback, and must not release a later lease of the same number.
CREATE SEQUENCE lane_tokens; -- only: postgres

CREATE TABLE lanes (
  id TEXT PRIMARY KEY,
  conversation TEXT NOT NULL REFERENCES conversations (id),
  channel TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('in', 'out')),
  next_seq BIGINT NOT NULL DEFAULT 1,
  sender TEXT NOT NULL DEFAULT '',
  node TEXT,
  due_at BIGINT,
  holder TEXT,
  token BIGINT NOT NULL DEFAULT 0,
  lease_until BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX lanes_due ON lanes (direction, channel, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE turns (
  id TEXT PRIMARY KEY,
  conversation TEXT NOT NULL REFERENCES conversations (id),
  channel TEXT NOT NULL,
  person TEXT NOT NULL,
  -- Where the answer goes when that is not the person (Reply-To), in lower case.
  reply_to TEXT,
  -- Where the answer goes, without the tag of the address (RFC 5233), if it has one.
  untagged TEXT,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL DEFAULT 'question' CHECK (kind IN ('question', 'relayed', 'mode')),
  event BIGINT REFERENCES events (id),
  trace TEXT NOT NULL DEFAULT '',
  preferred BIGINT NOT NULL DEFAULT 1,
  queue TEXT,
  session TEXT,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'asking', 'unknown', 'answered', 'silent', 'failed', 'dropped')),
  open BIGINT NOT NULL,
  question TEXT NOT NULL,
  context TEXT,
  opening TEXT,
  address TEXT NOT NULL,
  attempts BIGINT NOT NULL DEFAULT 0,
  lookups BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL,
  tried_at BIGINT,
  question_id TEXT,
  reason TEXT,
  received_at BIGINT NOT NULL,
  made_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE (conversation, seq)
);
CREATE INDEX turns_open ON turns (conversation, seq) WHERE open = 1;
-- The indexes of states say so in their condition: PostgreSQL would also scan them for the items of a conversation.
CREATE INDEX turns_now ON turns (channel, state, received_at) WHERE open = 1 AND state IS NOT NULL;
CREATE INDEX turns_exempt ON turns (channel, open) WHERE open = 1 AND (kind <> 'question' OR session IS NOT NULL);
CREATE INDEX turns_channel ON turns (channel, made_at);
CREATE INDEX turns_person ON turns (channel, person, made_at);
CREATE INDEX turns_reply_to ON turns (channel, reply_to, made_at) WHERE reply_to IS NOT NULL;
CREATE INDEX turns_untagged ON turns (channel, untagged, made_at) WHERE untagged IS NOT NULL;
CREATE INDEX turns_kept ON turns (channel, received_at) WHERE question <> '';

CREATE TABLE replies (
  id TEXT PRIMARY KEY,
  conversation TEXT NOT NULL REFERENCES conversations (id),
  channel TEXT NOT NULL,
  turn TEXT REFERENCES turns (id),
  kind TEXT NOT NULL DEFAULT 'answer' CHECK (kind IN ('answer', 'opening', 'notice', 'human')),
  address TEXT,
  transfer BIGINT NOT NULL DEFAULT 0,
  internal BIGINT NOT NULL DEFAULT 0,
  state TEXT NOT NULL CHECK (state IN ('ready', 'composed', 'failed')),
  text TEXT NOT NULL,
  rendered TEXT,
  platform_id TEXT,
  reason TEXT,
  kept BIGINT NOT NULL DEFAULT 1,
  created_at BIGINT NOT NULL
);
CREATE INDEX replies_turn ON replies (turn);
CREATE INDEX replies_ready ON replies (channel, id) WHERE state = 'ready';
CREATE INDEX replies_failed ON replies (channel) WHERE state = 'failed';
-- An answer is stored as composed, so its entry does not change.
CREATE INDEX replies_conversation ON replies (conversation, kind, state, platform_id);
CREATE INDEX replies_kept ON replies (channel, created_at) WHERE kept = 1;
CREATE INDEX replies_internal ON replies (created_at) WHERE internal = 1 AND kept = 1;

-- Files sent with a human's answer.
CREATE TABLE files (
  reply TEXT NOT NULL REFERENCES replies (id),
  position BIGINT NOT NULL,
  name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size BIGINT NOT NULL,
  blob TEXT REFERENCES blobs (id),
  PRIMARY KEY (reply, position)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX files_blob ON files (blob) WHERE blob IS NOT NULL;
CREATE INDEX files_forgotten ON files (reply) WHERE blob IS NULL;

CREATE TABLE drafts (
  id TEXT PRIMARY KEY,
  conversation TEXT NOT NULL REFERENCES conversations (id),
  channel TEXT NOT NULL,
  reply TEXT NOT NULL REFERENCES replies (id),
  recipient TEXT NOT NULL,
  -- 0: the recipient is the conversation's person, by which such drafts are found.
  elsewhere BIGINT NOT NULL DEFAULT 1,
  trace TEXT NOT NULL DEFAULT '',
  received_at BIGINT,
  session TEXT,
  heard TEXT,
  forced BIGINT NOT NULL DEFAULT 0,
  internal BIGINT NOT NULL DEFAULT 0,
  released BIGINT NOT NULL DEFAULT 0,
  seq BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'unknown', 'sent', 'delivered', 'failed', 'held', 'dropped')),
  open BIGINT NOT NULL,
  body TEXT NOT NULL,
  attempts BIGINT NOT NULL DEFAULT 0,
  lookups BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL,
  reconcile_until BIGINT,
  tried_at BIGINT,
  external_id TEXT,
  code TEXT,
  reason TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE (conversation, seq)
);
CREATE INDEX drafts_open ON drafts (conversation, seq) WHERE open = 1;
CREATE INDEX drafts_now ON drafts (channel, state, due_at, received_at) WHERE open = 1 AND state IS NOT NULL;
CREATE INDEX drafts_exempt ON drafts (channel, open) WHERE open = 1 AND (internal = 1 OR session IS NOT NULL);
CREATE INDEX drafts_held ON drafts (channel) WHERE state = 'held';
CREATE INDEX drafts_reply ON drafts (reply);
CREATE INDEX drafts_recipient ON drafts (channel, recipient) WHERE elsewhere = 1;
CREATE INDEX drafts_listed ON drafts (state, updated_at) WHERE state IN ('unknown', 'held', 'failed', 'dropped');

CREATE TABLE attempts (
  subject TEXT NOT NULL,
  number BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('ask', 'send')),
  node TEXT NOT NULL,
  token BIGINT NOT NULL,
  outcome TEXT CHECK (outcome IN ('sent', 'refused', 'deferred', 'unknown')),
  detail TEXT,
  started_at BIGINT NOT NULL,
  ended_at BIGINT,
  PRIMARY KEY (subject, number)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres

CREATE TABLE suppressions (
  channel TEXT NOT NULL,
  address TEXT NOT NULL,
  -- Our address from which nothing is sent, or '*' for all.
  own_address TEXT NOT NULL DEFAULT '*',
  strikes BIGINT NOT NULL,
  active BIGINT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('stop', 'provider', 'bounces', 'operator')),
  reason TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (channel, address, own_address)
) WITHOUT ROWID; -- only: sqlite
); -- only: postgres
CREATE INDEX suppressions_active ON suppressions (channel) WHERE active = 1;
`;
