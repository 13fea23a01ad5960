-- What people decided, as a chain of records for each tenant, and who did what. Records are only ever added.

-- The schema has a name of its own, since roles are granted on it. It may have been made before, by somebody who may.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'mcplock') THEN
        CREATE SCHEMA mcplock;
    END IF;
END $$;

CREATE TABLE mcplock.approval_record (
    tenant TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL CHECK (sequence > 0),
    -- Who decided: login@issuer.
    subject TEXT COLLATE "C" NOT NULL,
    identity TEXT COLLATE "C" NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    -- sha256:… or raw-sha256:…
    digest TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    -- How many people an approval takes.
    needed BIGINT NOT NULL,
    reason TEXT COLLATE "C",
    reference TEXT COLLATE "C",
    expires_at BIGINT,
    decided_at BIGINT NOT NULL,
    -- sha256:… of the record before this one.
    hash_before TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, sequence)
);

-- What was decided of a definition, and of a server.
CREATE INDEX approval_record_digest ON mcplock.approval_record (tenant, digest);
CREATE INDEX approval_record_identity ON mcplock.approval_record (tenant, identity);

-- How far each chain goes. Whoever adds records holds the row.
CREATE TABLE mcplock.approval_head (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    sequence BIGINT NOT NULL,
    hash TEXT COLLATE "C" NOT NULL
);

CREATE TABLE audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    happened_at BIGINT NOT NULL,
    -- Who: login@issuer, or the server's shell.
    subject TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    -- What it was done to: a key's id, an account, records.
    object TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C",
    -- What is noted no more than once has a text of its own here.
    once TEXT COLLATE "C" UNIQUE
);
