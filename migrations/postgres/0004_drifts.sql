-- What changed between two neighbouring observations. Rows are only added; a drift is at most marked as replaced.

CREATE TABLE drift (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity TEXT COLLATE "C" NOT NULL REFERENCES server (identity),
    before_observation BIGINT NOT NULL REFERENCES observation (id),
    after_observation BIGINT NOT NULL REFERENCES observation (id),
    cause TEXT NOT NULL,
    found_at BIGINT NOT NULL,
    -- A summary for lists, most first: `description-changed:3 tool-added:1`. The changes never change, nor does it.
    kinds TEXT NOT NULL,
    safety_relevant BOOLEAN NOT NULL,
    -- When a finer comparison took its place; NULL while it stands.
    replaced_at BIGINT
);

-- One standing drift leads to an observation.
CREATE UNIQUE INDEX drift_standing ON drift (after_observation) WHERE replaced_at IS NULL;
-- The latest of all, and those of one server.
CREATE INDEX drift_latest ON drift (id) WHERE replaced_at IS NULL;
CREATE INDEX drift_identity ON drift (identity, id) WHERE replaced_at IS NULL;

CREATE TABLE change (
    drift BIGINT NOT NULL REFERENCES drift (id),
    position BIGINT NOT NULL,
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
);
