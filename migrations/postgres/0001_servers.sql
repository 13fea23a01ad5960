-- Servers, the registry names that lead to them, and what is to be looked at.
-- The same numbers, names, tables and columns as in the other folder; a test compares them. Times are unix seconds.
-- COLLATE "C" wherever text is ordered: bytes, as SQLite and as Rust order it, whatever the database's locale.

CREATE TABLE server (
    identity TEXT COLLATE "C" PRIMARY KEY,
    short_id TEXT COLLATE "C" NOT NULL,
    form TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    -- How the server stands, from the look that is last in its timeline (not the look made last: a backfilled old
    -- version says nothing about today). Copied here so that lists and counts need not search the observations.
    outcome TEXT,
    detail TEXT,
    looked_at BIGINT,
    -- What it declares now: the newest determined observation in timeline order. Its foreign key comes with that table.
    current_observation BIGINT
);

-- Permalinks carry the short id.
CREATE INDEX server_short_id ON server (short_id);
-- Counts by state, and lists of one state paged by identity.
CREATE INDEX server_outcome ON server (outcome, identity);

CREATE TABLE alias (
    name TEXT COLLATE "C" NOT NULL,
    identity TEXT COLLATE "C" NOT NULL REFERENCES server (identity),
    source TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    PRIMARY KEY (name, identity)
);

CREATE INDEX alias_identity ON alias (identity, name);

CREATE TABLE target (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity TEXT COLLATE "C" NOT NULL REFERENCES server (identity),
    -- Empty: follow the newest. Not NULL, since two NULLs would not be one target.
    version TEXT COLLATE "C" NOT NULL,
    launch TEXT NOT NULL,
    source TEXT NOT NULL,
    -- Seconds between two looks; NULL is looked at once.
    every BIGINT,
    -- When it is due, or until when it is leased; NULL when a one-off is done.
    due BIGINT,
    -- Raised by every claim: a result is taken only under the epoch of its claim.
    epoch BIGINT NOT NULL,
    -- Who holds the lease; NULL when nobody does.
    worker TEXT,
    failures BIGINT NOT NULL,
    outcome TEXT,
    added_at BIGINT NOT NULL,
    UNIQUE (identity, version)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX target_due ON target (due, id);
-- The progress of a backfill is asked for every few seconds.
CREATE INDEX target_one_off ON target (due) WHERE every IS NULL;
