-- What a look ran behind: the level of the walls, as doctor and pages call it; NULL where nothing was run here.
ALTER TABLE observation ADD COLUMN sandbox TEXT;
