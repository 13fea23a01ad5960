-- What a look ran behind: the level of the walls, as doctor and pages call it; NULL where nothing was run here.
ALTER TABLE observation ADD COLUMN sandbox TEXT;

-- What is looked at now, and what fails most, are few of many.
CREATE INDEX target_running ON target (due, id) WHERE worker IS NOT NULL;
CREATE INDEX target_failing ON target (failures DESC, id) WHERE failures > 0;

-- When a domain may be contacted again, by whichever worker, and up to when the turns of its targets are given out.
CREATE TABLE pace (
    domain TEXT COLLATE "C" PRIMARY KEY,
    free_at BIGINT NOT NULL,
    booked_until BIGINT NOT NULL,
    -- Looks on this day, in days since 1970.
    day BIGINT NOT NULL,
    looks BIGINT NOT NULL
);
