-- The drifts of one server in timeline order, page by page, and the neighbours of one: without reading all of them.

-- The version key of the observation after, which never changes, copied here for the index.
ALTER TABLE drift ADD COLUMN version_key TEXT NOT NULL DEFAULT '';

UPDATE drift SET version_key = (SELECT o.version_key FROM observation o WHERE o.id = drift.after_observation);

CREATE INDEX drift_timeline ON drift (identity, version_key, after_observation) WHERE replaced_at IS NULL;

-- The new one counts a server's drifts as well.
DROP INDEX drift_identity;
