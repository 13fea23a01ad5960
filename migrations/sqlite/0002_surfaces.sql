-- What servers declared, each text and each surface once.

CREATE TABLE definition (
    digest TEXT PRIMARY KEY NOT NULL,
    -- The text that the digest covers: a definition without `_meta`, a `_meta`, or instructions as a JSON string.
    text TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL
) STRICT;

-- One row for each distinct thing that was recorded, so that a look which finds nothing new adds one observation
-- and nothing else.
CREATE TABLE surface (
    -- SHA-256 over all that is recorded here and in surface_member.
    record TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL,
    protocol_version TEXT NOT NULL,
    server_info TEXT,
    capabilities TEXT,
    instructions_digest TEXT REFERENCES definition (digest),
    -- `complete`, `not-declared`, or `failed: ` and the reason.
    tool_listing TEXT NOT NULL,
    prompt_listing TEXT NOT NULL,
    resource_listing TEXT NOT NULL,
    resource_template_listing TEXT NOT NULL,
    -- How many tools; NULL when their list failed, never 0 then.
    tools INTEGER
) STRICT;

CREATE INDEX surface_instructions ON surface (instructions_digest) WHERE instructions_digest IS NOT NULL;

CREATE TABLE surface_member (
    record TEXT NOT NULL REFERENCES surface (record),
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL REFERENCES definition (digest),
    meta_digest TEXT REFERENCES definition (digest),
    PRIMARY KEY (record, position)
) STRICT, WITHOUT ROWID;

-- Who declares this definition?
CREATE INDEX surface_member_digest ON surface_member (digest);
