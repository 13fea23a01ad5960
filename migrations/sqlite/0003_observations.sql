-- Each look at a server. Rows are only added.

CREATE TABLE observation (
    id INTEGER PRIMARY KEY NOT NULL,
    identity TEXT NOT NULL REFERENCES server (identity),
    -- The auth context: what a server lists may depend on who asks, so only looks of one context are compared.
    context TEXT NOT NULL,
    -- Sortable text of the version; empty where there are no versions. (version_key, id) is the timeline.
    version_key TEXT NOT NULL,
    -- The package; NULL version: none.
    version TEXT,
    integrity TEXT,
    dependencies TEXT,
    runtime TEXT,
    published_at INTEGER,
    observed_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT,
    -- What was determined; NULL when nothing was.
    record TEXT REFERENCES surface (record)
) STRICT;

CREATE INDEX observation_timeline ON observation (identity, version_key, id);
-- The neighbours to compare with.
CREATE INDEX observation_determined ON observation (identity, context, version_key, id) WHERE record IS NOT NULL;
-- Which servers declared this surface?
CREATE INDEX observation_record ON observation (record, identity) WHERE record IS NOT NULL;
