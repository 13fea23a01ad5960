-- What answers are made of without reading all there is: which definition many networks tell of, and since when a server declares
-- a surface.

-- Distinct networks of both sorts, for the order of lists: installs are free to invent, networks are not. Of older counts the most
-- that there can be.
ALTER TABLE signal_rollup ADD COLUMN networks INTEGER NOT NULL DEFAULT 0;

UPDATE signal_rollup SET networks = installs;

DROP INDEX signal_rollup_agreed;
DROP INDEX signal_rollup_seen;
-- What most networks agree on comes first, whatever one sends; and who tells of this definition?
CREATE INDEX signal_rollup_agreed
    ON signal_rollup (tool_fp, event, new_digest, new_hash, prev_digest, prev_hash, networks, installs);

-- One row for each server and surface, however often it was looked at.
CREATE TABLE surface_seen (
    identity TEXT NOT NULL REFERENCES server (identity),
    record TEXT NOT NULL REFERENCES surface (record),
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    -- The newest look in the timeline that saw it.
    version_key TEXT NOT NULL,
    observation INTEGER NOT NULL REFERENCES observation (id),
    PRIMARY KEY (identity, record)
) STRICT, WITHOUT ROWID;

INSERT INTO surface_seen (identity, record, first_at, last_at, version_key, observation)
SELECT identity, record, first_at, last_at, version_key, id
FROM (
    SELECT identity, record, version_key, id,
        MIN(observed_at) OVER (PARTITION BY identity, record) AS first_at,
        MAX(observed_at) OVER (PARTITION BY identity, record) AS last_at,
        ROW_NUMBER() OVER (PARTITION BY identity, record ORDER BY version_key DESC, id DESC) AS place
    FROM observation WHERE record IS NOT NULL
) looks
WHERE place = 1;
