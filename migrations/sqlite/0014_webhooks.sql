-- Who outside is told of what happens here, and what became of each telling. No secret is kept: what a target's deliveries are signed
-- with is derived from the server's key and the target's id.

CREATE TABLE webhook (
    -- Random, never given twice: the target's secret is derived from it.
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    form TEXT NOT NULL CHECK (form IN ('json', 'slack', 'github-issue')),
    -- A URL, in which `{secret:NAME}` stands for a secret of the settings; or `owner/repository`.
    destination TEXT NOT NULL,
    severity TEXT NOT NULL CHECK (severity IN ('all', 'safety-relevant')),
    -- Identities, or their beginnings with `*` behind them, joined by U+001F; empty: every server.
    servers TEXT NOT NULL,
    -- Whether the servers' own words go along.
    untrusted INTEGER NOT NULL CHECK (untrusted IN (0, 1)),
    -- Tells whether a server has the key that the secret was derived from; empty where nothing is signed.
    key_check TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    -- The last drift, and the last decision, of which it is settled whether they are told.
    drift_cursor INTEGER NOT NULL,
    decision_cursor INTEGER NOT NULL
) STRICT;

CREATE TABLE webhook_delivery (
    number INTEGER PRIMARY KEY NOT NULL,
    -- What receivers know it by, the same at each attempt.
    id TEXT NOT NULL UNIQUE,
    webhook TEXT NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    event TEXT NOT NULL CHECK (event IN ('drift', 'decision', 'test')),
    -- The number of the drift, or of the decision.
    subject INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    -- When it is tried next, or until when it is leased; NULL once it has ended.
    due INTEGER,
    epoch INTEGER NOT NULL,
    -- Who holds the lease.
    worker TEXT,
    attempts INTEGER NOT NULL,
    attempted_at INTEGER,
    -- The HTTP status of the last attempt, and what was wrong with it in words.
    status INTEGER,
    error TEXT,
    -- `delivered` or `gave-up`; NULL while it waits.
    outcome TEXT CHECK (outcome IN ('delivered', 'gave-up')),
    ended_at INTEGER
) STRICT;

-- What is to be sent.
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook, due) WHERE due IS NOT NULL;
-- The log of one target.
CREATE INDEX webhook_delivery_log ON webhook_delivery (webhook, number);

-- The issues that the form `github-issue` has opened.
CREATE TABLE webhook_issue (
    webhook TEXT NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    issue INTEGER NOT NULL,
    identity TEXT NOT NULL,
    -- Of the drift that opened it; stands in the issue's text.
    fingerprint TEXT NOT NULL,
    -- The drift that opened it, and the last one that it was told of.
    first_drift INTEGER NOT NULL,
    last_drift INTEGER NOT NULL,
    closed_at INTEGER,
    PRIMARY KEY (webhook, issue)
) STRICT, WITHOUT ROWID;

-- A server has one open issue at a target.
CREATE UNIQUE INDEX webhook_issue_open ON webhook_issue (webhook, identity) WHERE closed_at IS NULL;
