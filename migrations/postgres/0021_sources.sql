-- Registries that tell of servers: when each is read, by whom, and what of its entries can be looked at.

CREATE TABLE source (
    address TEXT COLLATE "C" PRIMARY KEY,
    -- Seconds between two readings.
    every BIGINT NOT NULL,
    -- When it is due, or until when a reading holds it.
    due BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    worker TEXT,
    -- Up to which change the readings have come; NULL before the first complete one.
    mark BIGINT,
    -- The last reading that came to its end, and the last of everything.
    read_at BIGINT,
    whole_at BIGINT,
    -- Entries that could not be read then.
    skipped BIGINT NOT NULL,
    -- The last try, why it failed, and how many in a row.
    tried_at BIGINT,
    problem TEXT,
    failures BIGINT NOT NULL
);

-- The latest version of each server that a source tells of, with how many of its packages and remotes are what.
CREATE TABLE source_entry (
    address TEXT COLLATE "C" NOT NULL REFERENCES source (address) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    version TEXT NOT NULL,
    status TEXT NOT NULL,
    updated_at BIGINT,
    targets BIGINT NOT NULL,
    needs_config BIGINT NOT NULL,
    needs_container BIGINT NOT NULL,
    unsupported BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    PRIMARY KEY (address, name)
);

-- What a source asked for, to stop following it.
CREATE INDEX target_source ON target (source, identity);
