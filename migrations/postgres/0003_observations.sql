-- Each look at a server. Rows are only added.

CREATE TABLE observation (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity TEXT COLLATE "C" NOT NULL REFERENCES server (identity),
    -- The auth context: what a server lists may depend on who asks, so only looks of one context are compared.
    context TEXT COLLATE "C" NOT NULL,
    -- Sortable text of the version; empty where there are no versions. (version_key, id) is the timeline.
    version_key TEXT COLLATE "C" NOT NULL,
    -- The package; NULL version: none.
    version TEXT,
    integrity TEXT,
    dependencies TEXT,
    runtime TEXT,
    published_at BIGINT,
    observed_at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT,
    -- What was determined; NULL when nothing was.
    record TEXT COLLATE "C" REFERENCES surface (record)
);

CREATE INDEX observation_timeline ON observation (identity, version_key, id);
-- The neighbours to compare with.
CREATE INDEX observation_determined ON observation (identity, context, version_key, id) WHERE record IS NOT NULL;
-- Which servers declared this surface?
CREATE INDEX observation_record ON observation (record, identity) WHERE record IS NOT NULL;

ALTER TABLE server
    ADD CONSTRAINT server_current_observation FOREIGN KEY (current_observation) REFERENCES observation (id);
