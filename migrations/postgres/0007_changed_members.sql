-- How many tools, prompts, … of a drift changed without coming or going: `tool:13 prompt:1`. One of them can have many changes, so
-- `kinds` doesn't tell. A summary for lists like that one.
ALTER TABLE drift ADD COLUMN changed TEXT NOT NULL DEFAULT '';

UPDATE drift SET changed = COALESCE((
    SELECT string_agg(subject_kind || ':' || members, ' ')
    FROM (
        SELECT subject_kind, COUNT(DISTINCT subject_name) AS members
        FROM change
        WHERE change.drift = drift.id AND subject_kind <> 'instructions'
          AND kind NOT IN ('tool-added', 'tool-removed', 'prompt-added', 'prompt-removed', 'resource-added', 'resource-removed',
                           'resource-template-added', 'resource-template-removed')
        GROUP BY subject_kind
    ) AS counted
), '');
