-- What installs tell of calls (receipts), where an index takes that in.

CREATE TABLE receipt (
    install BYTEA NOT NULL,
    -- As the install named it: what is told twice is kept once.
    receipt_id TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    -- The published contract hash of the tool that was called.
    tool_hash TEXT NOT NULL,
    -- ALLOW, REVIEW or DENY.
    verdict TEXT NOT NULL,
    -- The whole as RFC 8785 writes it.
    body TEXT NOT NULL,
    -- The sender's network: the first 3 bytes of an IPv4 address, the first 6 of an IPv6 one.
    network BYTEA NOT NULL,
    -- Whether the sender proved to be that install.
    authenticated BOOLEAN NOT NULL,
    PRIMARY KEY (install, receipt_id)
);

-- What is past keeping.
CREATE INDEX receipt_received ON receipt (received_at);
