-- What changed between two neighbouring observations. Rows are only added; a drift is at most marked as replaced.

CREATE TABLE drift (
    id INTEGER PRIMARY KEY NOT NULL,
    identity TEXT NOT NULL REFERENCES server (identity),
    before_observation INTEGER NOT NULL REFERENCES observation (id),
    after_observation INTEGER NOT NULL REFERENCES observation (id),
    cause TEXT NOT NULL,
    found_at INTEGER NOT NULL,
    -- A summary for lists, most first: `description-changed:3 tool-added:1`. The changes never change, nor does it.
    kinds TEXT NOT NULL,
    safety_relevant INTEGER NOT NULL CHECK (safety_relevant IN (0, 1)),
    -- When a finer comparison took its place; NULL while it stands.
    replaced_at INTEGER
) STRICT;

-- One standing drift leads to an observation.
CREATE UNIQUE INDEX drift_standing ON drift (after_observation) WHERE replaced_at IS NULL;
-- The latest of all, and those of one server.
CREATE INDEX drift_latest ON drift (id) WHERE replaced_at IS NULL;
CREATE INDEX drift_identity ON drift (identity, id) WHERE replaced_at IS NULL;

CREATE TABLE change (
    drift INTEGER NOT NULL REFERENCES drift (id),
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- `instructions`, or the kind of the member that `subject_name` names.
    subject_kind TEXT NOT NULL,
    subject_name TEXT NOT NULL,
    pointer TEXT NOT NULL,
    -- Excerpts, cut at 64 KiB; the whole texts are definitions under their digests.
    before_text TEXT,
    after_text TEXT,
    before_digest TEXT,
    after_digest TEXT,
    PRIMARY KEY (drift, position)
) STRICT, WITHOUT ROWID;
