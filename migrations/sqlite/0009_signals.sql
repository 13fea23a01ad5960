-- What installs tell (signals), what is counted of them, which installs have a token, and which servers and tools the
-- fingerprints in them stand for.

CREATE TABLE signal (
    -- In the order of arrival: how far the counting has come is one number.
    seq INTEGER PRIMARY KEY NOT NULL,
    -- Days since 1970-01-01 of the signal's hour; of its receipt where it has none.
    day INTEGER NOT NULL,
    -- The natural key: what is told twice is kept once.
    sig_id BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    -- The signal's hour, or that of its receipt.
    seen_at INTEGER NOT NULL,
    event TEXT NOT NULL,
    server_fp BLOB NOT NULL,
    tool_fp BLOB NOT NULL,
    -- Empty on a pin.
    prev_hash TEXT NOT NULL,
    new_hash TEXT NOT NULL,
    -- Empty in version 1.
    prev_digest TEXT NOT NULL,
    new_digest TEXT NOT NULL,
    -- Names, sorted, separated by spaces.
    kinds TEXT NOT NULL,
    safety_relevant INTEGER NOT NULL CHECK (safety_relevant IN (0, 1)),
    sdk TEXT NOT NULL,
    install BLOB NOT NULL,
    -- The sender's network: the first 3 bytes of an IPv4 address, the first 6 of an IPv6 one.
    network BLOB NOT NULL,
    -- Whether the sender proved to be that install.
    authenticated INTEGER NOT NULL CHECK (authenticated IN (0, 1)),
    UNIQUE (day, sig_id)
) STRICT;

-- The raw signals behind one count.
CREATE INDEX signal_tool ON signal (tool_fp, day);

-- Counts for each day, tool and transition. They outlive the signals.
CREATE TABLE signal_rollup (
    tool_fp BLOB NOT NULL,
    day INTEGER NOT NULL,
    -- A hash of event, hashes and digests.
    transition BLOB NOT NULL,
    event TEXT NOT NULL,
    server_fp BLOB NOT NULL,
    prev_hash TEXT NOT NULL,
    new_hash TEXT NOT NULL,
    prev_digest TEXT NOT NULL,
    new_digest TEXT NOT NULL,
    kinds TEXT NOT NULL,
    safety_relevant INTEGER NOT NULL CHECK (safety_relevant IN (0, 1)),
    last_seen_at INTEGER NOT NULL,
    signals INTEGER NOT NULL,
    -- Distinct installs of both sorts, for the order of lists.
    installs INTEGER NOT NULL,
    -- Distinct counts: exact below 1,000, then HyperLogLog.
    authenticated BLOB NOT NULL,
    authenticated_networks BLOB NOT NULL,
    anonymous BLOB NOT NULL,
    anonymous_networks BLOB NOT NULL,
    PRIMARY KEY (tool_fp, day, transition)
) STRICT, WITHOUT ROWID;

-- What most installs agree on comes first, whatever a few send.
CREATE INDEX signal_rollup_agreed ON signal_rollup (tool_fp, event, installs);

-- One row: the last signal that is counted. Whoever counts holds it.
CREATE TABLE signal_mark (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    counted_to INTEGER NOT NULL
) STRICT;

INSERT INTO signal_mark (id, counted_to) VALUES (1, 0);

CREATE TABLE install_token (
    install BLOB PRIMARY KEY NOT NULL,
    -- SHA-256 of the token.
    token_hash BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Fingerprints under the public constant, of each identity and each alias, and of each of its tools that drifted.
CREATE TABLE fingerprint (
    fp BLOB NOT NULL,
    identity TEXT NOT NULL REFERENCES server (identity),
    -- The tool's name; empty for the server.
    tool TEXT NOT NULL,
    of_tool INTEGER NOT NULL CHECK (of_tool IN (0, 1)),
    PRIMARY KEY (fp, identity)
) STRICT, WITHOUT ROWID;

CREATE INDEX fingerprint_identity ON fingerprint (identity);
