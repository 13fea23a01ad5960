-- The id of the key that a key was made or rotated with; NULL: a person, a sign-in or the server's shell made it.
ALTER TABLE api_key ADD COLUMN made_by TEXT;

CREATE INDEX api_key_made_by ON api_key (made_by) WHERE made_by IS NOT NULL;
