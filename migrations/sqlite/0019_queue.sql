-- What waits for a decision, the newest first, and what was done, by person and by act.

-- Since when a server declares what it declares now: when it was first seen to; NULL while nothing was determined.
ALTER TABLE server ADD COLUMN declared_since INTEGER;

UPDATE server SET declared_since = (
    SELECT r.first_at FROM observation o JOIN surface_seen r ON r.identity = o.identity AND r.record = o.record
    WHERE o.id = server.current_observation);

CREATE INDEX server_declared ON server (declared_since, identity);

-- The decisions about one server, the newest first.
DROP INDEX approval_record_identity;
CREATE INDEX approval_record_identity ON approval_record (tenant, identity, sequence);

-- What was decided of a definition at a server: many may declare the same one.
DROP INDEX approval_record_digest;
CREATE INDEX approval_record_digest ON approval_record (tenant, digest, identity);

CREATE INDEX audit_subject ON audit (subject, id);
CREATE INDEX audit_action ON audit (action, id);

-- What gates ask an approver to decide about: definitions of servers that the crawl may never see.
CREATE TABLE approval_request (
    id INTEGER PRIMARY KEY NOT NULL,
    identity TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    definition TEXT NOT NULL,
    -- What it is pinned to at the gate, where it is.
    baseline TEXT,
    note TEXT,
    -- Who asked first.
    account INTEGER NOT NULL REFERENCES account (id),
    requested_at INTEGER NOT NULL,
    UNIQUE (digest, identity, tool)
) STRICT;

CREATE INDEX approval_request_account ON approval_request (account);
