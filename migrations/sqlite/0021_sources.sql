-- Registries that tell of servers: when each is read, by whom, and what of its entries can be looked at.

CREATE TABLE source (
    address TEXT PRIMARY KEY NOT NULL,
    -- Seconds between two readings.
    every INTEGER NOT NULL,
    -- When it is due, or until when a reading holds it.
    due INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT,
    -- Up to which change the readings have come; NULL before the first complete one.
    mark INTEGER,
    -- The last reading that came to its end, and the last of everything.
    read_at INTEGER,
    whole_at INTEGER,
    -- Entries that could not be read then.
    skipped INTEGER NOT NULL,
    -- The last try, why it failed, and how many in a row.
    tried_at INTEGER,
    problem TEXT,
    failures INTEGER NOT NULL
) STRICT;

-- The latest version of each server that a source tells of, with how many of its packages and remotes are what.
CREATE TABLE source_entry (
    address TEXT NOT NULL REFERENCES source (address) ON DELETE CASCADE,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    status TEXT NOT NULL,
    updated_at INTEGER,
    targets INTEGER NOT NULL,
    needs_config INTEGER NOT NULL,
    needs_container INTEGER NOT NULL,
    unsupported INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (address, name)
) STRICT, WITHOUT ROWID;

-- What a source asked for, to stop following it.
CREATE INDEX target_source ON target (source, identity);
