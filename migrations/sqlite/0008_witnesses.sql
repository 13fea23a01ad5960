-- What proves a change: arguments that are refused now (JSON), or the name of the rule that decided. Neither is known for
-- changes that were recorded before.

ALTER TABLE change ADD COLUMN witness TEXT;
ALTER TABLE change ADD COLUMN rule TEXT;
