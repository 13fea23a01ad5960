-- What people decided, as a chain of records for each tenant, and who did what. Records are only ever added.

CREATE TABLE approval_record (
    tenant TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    -- Who decided: login@issuer.
    subject TEXT NOT NULL,
    identity TEXT NOT NULL,
    tool TEXT NOT NULL,
    -- sha256:… or raw-sha256:…
    digest TEXT NOT NULL,
    decision TEXT NOT NULL,
    -- How many people an approval takes.
    needed INTEGER NOT NULL,
    reason TEXT,
    reference TEXT,
    expires_at INTEGER,
    decided_at INTEGER NOT NULL,
    -- sha256:… of the record before this one.
    hash_before TEXT NOT NULL,
    PRIMARY KEY (tenant, sequence)
) STRICT, WITHOUT ROWID;

-- What was decided of a definition, and of a server.
CREATE INDEX approval_record_digest ON approval_record (tenant, digest);
CREATE INDEX approval_record_identity ON approval_record (tenant, identity);

-- How far each chain goes. Whoever adds records holds the row.
CREATE TABLE approval_head (
    tenant TEXT PRIMARY KEY NOT NULL,
    sequence INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY NOT NULL,
    happened_at INTEGER NOT NULL,
    -- Who: login@issuer, or the server's shell.
    subject TEXT NOT NULL,
    action TEXT NOT NULL,
    -- What it was done to: a key's id, an account, records.
    object TEXT NOT NULL,
    detail TEXT,
    -- What is noted no more than once has a text of its own here.
    once TEXT UNIQUE
) STRICT;
