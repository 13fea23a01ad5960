-- How servers and their tools are found: by fingerprint (all tools, under the public constant and under the organisation's key),
-- by words, and by name and digest without reading whole timelines.

-- How far that is kept of a server: 0 as an older program left it, 1 but for the organisation's key, 2 all.
ALTER TABLE server ADD COLUMN findable INTEGER NOT NULL DEFAULT 0;

CREATE INDEX server_findable ON server (findable, identity);

-- The words that a server is found by, each once, in lower case, separated by spaces.
CREATE TABLE server_words (
    id INTEGER PRIMARY KEY NOT NULL,
    identity TEXT NOT NULL UNIQUE REFERENCES server (identity),
    -- The surface that `tools` and `texts` are of; NULL before one was determined.
    record TEXT REFERENCES surface (record),
    -- Of the identity and its aliases; of its tools' names; of their titles and descriptions, and of what the server says of itself.
    names TEXT NOT NULL,
    tools TEXT NOT NULL,
    texts TEXT NOT NULL,
    -- Letters in `names`: what is short and matches is likely to be what is meant.
    names_length INTEGER NOT NULL
) STRICT;

-- Words are cut in the program, alike for both databases: in `ascii`, every letter beyond ASCII is part of a word.
CREATE VIRTUAL TABLE server_words_index USING fts5 (
    names, tools, texts,
    content = 'server_words', content_rowid = 'id', tokenize = 'ascii', detail = 'column', columnsize = 0, prefix = '2 3'
);

CREATE TRIGGER server_words_added AFTER INSERT ON server_words BEGIN
    INSERT INTO server_words_index (rowid, names, tools, texts) VALUES (new.id, new.names, new.tools, new.texts);
END;

CREATE TRIGGER server_words_removed AFTER DELETE ON server_words BEGIN
    INSERT INTO server_words_index (server_words_index, rowid, names, tools, texts)
    VALUES ('delete', old.id, old.names, old.tools, old.texts);
END;

CREATE TRIGGER server_words_changed AFTER UPDATE ON server_words BEGIN
    INSERT INTO server_words_index (server_words_index, rowid, names, tools, texts)
    VALUES ('delete', old.id, old.names, old.tools, old.texts);
    INSERT INTO server_words_index (rowid, names, tools, texts) VALUES (new.id, new.names, new.tools, new.texts);
END;

-- What did a server declare under this name, ever? A name has no bound, an index's row has: its first letters are enough.
CREATE INDEX surface_member_name ON surface_member (record, kind, substr(name, 1, 100));
-- What became of this tool?
CREATE INDEX change_subject ON change (drift, subject_kind, substr(subject_name, 1, 100));
-- Who sees this definition?
CREATE INDEX signal_rollup_seen ON signal_rollup (tool_fp, new_digest, new_hash);
