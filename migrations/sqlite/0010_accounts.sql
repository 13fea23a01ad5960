-- Who people are here, what proves it (keys, sessions), what is under way until it is proved (sign-ins, codes, devices), and the
-- organisation's own fingerprint key. Of every secret that proves something, SHA-256 alone is kept.

CREATE TABLE account (
    id INTEGER PRIMARY KEY NOT NULL,
    -- Who says who this is, and what they call them for good. An e-mail address or a login may pass to somebody else.
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    login TEXT NOT NULL,
    email TEXT,
    role TEXT NOT NULL CHECK (role IN ('member', 'approver', 'admin')),
    created_at INTEGER NOT NULL,
    -- NULL: made on the server's shell, and never signed in.
    signed_in_at INTEGER,
    disabled_at INTEGER,
    UNIQUE (issuer, subject)
) STRICT;

-- Is there an admin, and another one?
CREATE INDEX account_admin ON account (id) WHERE role = 'admin';

-- Each replica prints one while there is no admin.
CREATE TABLE setup_code (
    hash BLOB PRIMARY KEY NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_key (
    -- Public.
    id TEXT PRIMARY KEY NOT NULL,
    account INTEGER NOT NULL REFERENCES account (id),
    hash BLOB NOT NULL UNIQUE,
    -- Its first letters.
    shown TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Names, separated by spaces.
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- The network that asked for it: the first 3 bytes of an IPv4 address, the first 6 of an IPv6 one.
    created_from BLOB,
    expires_at INTEGER,
    -- Days since 1970-01-01, and the network of that day.
    last_used_on INTEGER,
    last_used_from BLOB,
    revoked_at INTEGER,
    -- The id of the key that a rotation put in its place.
    replaced_by TEXT
) STRICT;

CREATE INDEX api_key_account ON api_key (account);

CREATE TABLE browser_session (
    hash BLOB PRIMARY KEY NOT NULL,
    account INTEGER NOT NULL REFERENCES account (id),
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX browser_session_account ON browser_session (account);

-- Browsers that were sent to a provider and are not back yet.
CREATE TABLE sign_in (
    hash BLOB PRIMARY KEY NOT NULL,
    provider TEXT NOT NULL,
    next TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One-time codes that a desk gets through the browser. A spent one stays for a while, so that its return is noticed.
CREATE TABLE login_code (
    hash BLOB PRIMARY KEY NOT NULL,
    account INTEGER NOT NULL REFERENCES account (id),
    challenge TEXT NOT NULL,
    key_name TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER,
    -- The key it gave.
    key_id TEXT REFERENCES api_key (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE device_request (
    hash BLOB PRIMARY KEY NOT NULL,
    user_code TEXT NOT NULL UNIQUE,
    key_name TEXT NOT NULL,
    -- Where it was asked from, as the page shows it.
    network_shown TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- Seconds between two polls, and when the next one is welcome.
    poll_interval INTEGER NOT NULL,
    next_poll_at INTEGER NOT NULL,
    -- Who decided, and how; NULL while nobody has.
    account INTEGER REFERENCES account (id),
    allowed INTEGER CHECK (allowed IN (0, 1))
) STRICT, WITHOUT ROWID;

-- One row, made when it is first asked for.
CREATE TABLE organisation (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    fingerprint_key BLOB NOT NULL
) STRICT;
