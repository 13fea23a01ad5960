-- Who people are here, what proves it (keys, sessions), what is under way until it is proved (sign-ins, codes, devices), and the
-- organisation's own fingerprint key. Of every secret that proves something, SHA-256 alone is kept.

CREATE TABLE account (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Who says who this is, and what they call them for good. An e-mail address or a login may pass to somebody else.
    issuer TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    login TEXT COLLATE "C" NOT NULL,
    email TEXT COLLATE "C",
    role TEXT NOT NULL CHECK (role IN ('member', 'approver', 'admin')),
    created_at BIGINT NOT NULL,
    -- NULL: made on the server's shell, and never signed in.
    signed_in_at BIGINT,
    disabled_at BIGINT,
    UNIQUE (issuer, subject)
);

-- Is there an admin, and another one?
CREATE INDEX account_admin ON account (id) WHERE role = 'admin';

-- Each replica prints one while there is no admin.
CREATE TABLE setup_code (
    hash BYTEA PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

CREATE TABLE api_key (
    -- Public.
    id TEXT COLLATE "C" PRIMARY KEY,
    account BIGINT NOT NULL REFERENCES account (id),
    hash BYTEA NOT NULL UNIQUE,
    -- Its first letters.
    shown TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Names, separated by spaces.
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- The network that asked for it: the first 3 bytes of an IPv4 address, the first 6 of an IPv6 one.
    created_from BYTEA,
    expires_at BIGINT,
    -- Days since 1970-01-01, and the network of that day.
    last_used_on BIGINT,
    last_used_from BYTEA,
    revoked_at BIGINT,
    -- The id of the key that a rotation put in its place.
    replaced_by TEXT COLLATE "C"
);

CREATE INDEX api_key_account ON api_key (account);

CREATE TABLE browser_session (
    hash BYTEA PRIMARY KEY,
    account BIGINT NOT NULL REFERENCES account (id),
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL
);

CREATE INDEX browser_session_account ON browser_session (account);

-- Browsers that were sent to a provider and are not back yet.
CREATE TABLE sign_in (
    hash BYTEA PRIMARY KEY,
    provider TEXT NOT NULL,
    next TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- One-time codes that a desk gets through the browser. A spent one stays for a while, so that its return is noticed.
CREATE TABLE login_code (
    hash BYTEA PRIMARY KEY,
    account BIGINT NOT NULL REFERENCES account (id),
    challenge TEXT NOT NULL,
    key_name TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    -- The key it gave.
    key_id TEXT COLLATE "C" REFERENCES api_key (id)
);

CREATE TABLE device_request (
    hash BYTEA PRIMARY KEY,
    user_code TEXT COLLATE "C" NOT NULL UNIQUE,
    key_name TEXT NOT NULL,
    -- Where it was asked from, as the page shows it.
    network_shown TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- Seconds between two polls, and when the next one is welcome.
    poll_interval BIGINT NOT NULL,
    next_poll_at BIGINT NOT NULL,
    -- Who decided, and how; NULL while nobody has.
    account BIGINT REFERENCES account (id),
    allowed BOOLEAN
);

-- One row, made when it is first asked for.
CREATE TABLE organisation (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    fingerprint_key BYTEA NOT NULL
);
