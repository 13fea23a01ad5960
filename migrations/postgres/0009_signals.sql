-- What installs tell (signals), what is counted of them, which installs have a token, and which servers and tools the
-- fingerprints in them stand for.

CREATE SEQUENCE signal_seq;

-- One partition for each day, made ahead by the program and dropped when the day is past keeping.
CREATE TABLE signal (
    -- In the order of arrival: how far the counting has come is one number.
    seq BIGINT NOT NULL DEFAULT nextval('signal_seq'),
    -- Days since 1970-01-01 of the signal's hour; of its receipt where it has none.
    day BIGINT NOT NULL,
    -- The natural key: what is told twice is kept once.
    sig_id BYTEA NOT NULL,
    received_at BIGINT NOT NULL,
    -- The signal's hour, or that of its receipt.
    seen_at BIGINT NOT NULL,
    event TEXT NOT NULL,
    server_fp BYTEA NOT NULL,
    tool_fp BYTEA NOT NULL,
    -- Empty on a pin.
    prev_hash TEXT NOT NULL,
    new_hash TEXT NOT NULL,
    -- Empty in version 1.
    prev_digest TEXT NOT NULL,
    new_digest TEXT NOT NULL,
    -- Names, sorted, separated by spaces.
    kinds TEXT NOT NULL,
    safety_relevant BOOLEAN NOT NULL,
    sdk TEXT NOT NULL,
    install BYTEA NOT NULL,
    -- The sender's network: the first 3 bytes of an IPv4 address, the first 6 of an IPv6 one.
    network BYTEA NOT NULL,
    -- Whether the sender proved to be that install.
    authenticated BOOLEAN NOT NULL,
    PRIMARY KEY (day, sig_id)
) PARTITION BY RANGE (day);

CREATE INDEX signal_arrival ON signal (seq);

-- The raw signals behind one count.
CREATE INDEX signal_tool ON signal (tool_fp, day);

-- Counts for each day, tool and transition. They outlive the signals.
CREATE TABLE signal_rollup (
    tool_fp BYTEA NOT NULL,
    day BIGINT NOT NULL,
    -- A hash of event, hashes and digests.
    transition BYTEA NOT NULL,
    event TEXT NOT NULL,
    server_fp BYTEA NOT NULL,
    prev_hash TEXT NOT NULL,
    new_hash TEXT NOT NULL,
    prev_digest TEXT NOT NULL,
    new_digest TEXT NOT NULL,
    kinds TEXT NOT NULL,
    safety_relevant BOOLEAN NOT NULL,
    last_seen_at BIGINT NOT NULL,
    signals BIGINT NOT NULL,
    -- Distinct installs of both sorts, for the order of lists.
    installs BIGINT NOT NULL,
    -- Distinct counts: exact below 1,000, then HyperLogLog.
    authenticated BYTEA NOT NULL,
    authenticated_networks BYTEA NOT NULL,
    anonymous BYTEA NOT NULL,
    anonymous_networks BYTEA NOT NULL,
    PRIMARY KEY (tool_fp, day, transition)
);

-- What most installs agree on comes first, whatever a few send.
CREATE INDEX signal_rollup_agreed ON signal_rollup (tool_fp, event, installs);

-- One row: the last signal that is counted. Whoever counts holds it.
CREATE TABLE signal_mark (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    counted_to BIGINT NOT NULL
);

INSERT INTO signal_mark (id, counted_to) VALUES (1, 0);

CREATE TABLE install_token (
    install BYTEA PRIMARY KEY,
    -- SHA-256 of the token.
    token_hash BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);

-- Fingerprints under the public constant, of each identity and each alias, and of each of its tools that drifted.
CREATE TABLE fingerprint (
    fp BYTEA NOT NULL,
    identity TEXT COLLATE "C" NOT NULL REFERENCES server (identity),
    -- The tool's name; empty for the server.
    tool TEXT NOT NULL,
    of_tool BOOLEAN NOT NULL,
    PRIMARY KEY (fp, identity)
);

CREATE INDEX fingerprint_identity ON fingerprint (identity);
