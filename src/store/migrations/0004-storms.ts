// Scaling to many open escalations and several nodes: a sequence number of
// the conversation instead of a time, and indexes for due rows.

export const storms = /* sql */ `
ALTER TABLE escalations ADD COLUMN from_seq BIGINT NOT NULL DEFAULT 0;
UPDATE escalations SET from_seq = COALESCE((
  SELECT MAX(turns.seq) + 1 FROM turns
  WHERE turns.conversation = escalations.conversation AND turns.made_at <= escalations.opened_at), 0);

DROP INDEX escalations_about;
DROP INDEX escalations_state;
DROP INDEX notices_due;
CREATE INDEX escalations_ahead ON escalations ((CASE WHEN notified_at > entered_at THEN notified_at ELSE entered_at END))
  WHERE due_at IS NOT NULL;
CREATE INDEX escalations_about ON escalations (about, number);
CREATE INDEX escalations_state ON escalations (state, number);
CREATE INDEX notices_due ON notices (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX notices_ahead ON notices (made_at) WHERE due_at IS NOT NULL;
CREATE INDEX notices_written ON notices (written_at) WHERE written_at IS NOT NULL;
`;
