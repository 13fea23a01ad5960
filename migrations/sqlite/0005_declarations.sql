-- Who declares this definition, now or ever? One row for each server and definition, however many surfaces hold it and
-- however often it was looked at. The name stands in the definition's own text; kind `instructions` has none.

CREATE TABLE declaration (
    digest TEXT NOT NULL REFERENCES definition (digest),
    identity TEXT NOT NULL REFERENCES server (identity),
    kind TEXT NOT NULL,
    PRIMARY KEY (digest, identity, kind)
) STRICT, WITHOUT ROWID;

INSERT INTO declaration (digest, identity, kind)
SELECT m.digest, o.identity, m.kind
FROM surface_member m
JOIN observation o ON o.record = m.record
UNION
SELECT s.instructions_digest, o.identity, 'instructions'
FROM surface s
JOIN observation o ON o.record = s.record
WHERE s.instructions_digest IS NOT NULL;

-- They answered that question before.
DROP INDEX surface_member_digest;
DROP INDEX surface_instructions;
