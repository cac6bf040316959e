// Files sent with a human's answer, and the attachments of a message that qualify as such files.

export const files = /* sql */ `
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

ALTER TABLE attachments ADD COLUMN meant BIGINT NOT NULL DEFAULT 1;
UPDATE attachments SET meant = named;
`;
