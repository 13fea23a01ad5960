-- Readers of feeds that send no header: one unguessable path for each account, of which SHA-256 alone is kept.

CREATE TABLE feed_path (
    account INTEGER PRIMARY KEY NOT NULL REFERENCES account (id),
    hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    -- Days since 1970-01-01.
    last_used_on INTEGER
) STRICT;
