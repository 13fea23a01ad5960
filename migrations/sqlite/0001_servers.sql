-- Servers, the registry names that lead to them, and what is to be looked at.
-- The same numbers, names, tables and columns as in the other folder; a test compares them. Times are unix seconds.

CREATE TABLE server (
    identity TEXT PRIMARY KEY NOT NULL,
    short_id TEXT NOT NULL,
    form TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    -- How the server stands, from the look that is last in its timeline (not the look made last: a backfilled old
    -- version says nothing about today). Copied here so that lists and counts need not search the observations.
    outcome TEXT,
    detail TEXT,
    looked_at INTEGER,
    -- What it declares now: the newest determined observation in timeline order.
    current_observation INTEGER REFERENCES observation (id)
) STRICT;

-- Permalinks carry the short id.
CREATE INDEX server_short_id ON server (short_id);
-- Counts by state, and lists of one state paged by identity.
CREATE INDEX server_outcome ON server (outcome, identity);

CREATE TABLE alias (
    name TEXT NOT NULL,
    identity TEXT NOT NULL REFERENCES server (identity),
    source TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    PRIMARY KEY (name, identity)
) STRICT, WITHOUT ROWID;

CREATE INDEX alias_identity ON alias (identity, name);

CREATE TABLE target (
    id INTEGER PRIMARY KEY NOT NULL,
    identity TEXT NOT NULL REFERENCES server (identity),
    -- Empty: follow the newest. Not NULL, since two NULLs would not be one target.
    version TEXT NOT NULL,
    launch TEXT NOT NULL,
    source TEXT NOT NULL,
    -- Seconds between two looks; NULL is looked at once.
    every INTEGER,
    -- When it is due, or until when it is leased; NULL when a one-off is done.
    due INTEGER,
    -- Raised by every claim: a result is taken only under the epoch of its claim.
    epoch INTEGER NOT NULL,
    -- Who holds the lease; NULL when nobody does.
    worker TEXT,
    failures INTEGER NOT NULL,
    outcome TEXT,
    added_at INTEGER NOT NULL,
    UNIQUE (identity, version)
) STRICT;

CREATE INDEX target_due ON target (due, id);
-- The progress of a backfill is asked for every few seconds.
CREATE INDEX target_one_off ON target (due) WHERE every IS NULL;
