-- Readers of feeds that send no header: one unguessable path for each account, of which SHA-256 alone is kept.

CREATE TABLE feed_path (
    account BIGINT PRIMARY KEY REFERENCES account (id),
    hash BYTEA NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    -- Days since 1970-01-01.
    last_used_on BIGINT
);
