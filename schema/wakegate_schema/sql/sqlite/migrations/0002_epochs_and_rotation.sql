-- A store that goes back in time: the epoch, raised whenever that may have happened; append-only.

CREATE TABLE epoch (
    number INTEGER PRIMARY KEY,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

INSERT INTO epoch (number, reason, actor, at)
VALUES (1, 'created', 'migration', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);

CREATE TRIGGER epoch_rises BEFORE INSERT ON epoch
WHEN new.number <> (SELECT MAX(number) + 1 FROM epoch)
BEGIN
    SELECT RAISE(ABORT, 'the next epoch is the last one plus one');
END;

CREATE TRIGGER epoch_is_append_only BEFORE UPDATE ON epoch
BEGIN
    SELECT RAISE(ABORT, 'epochs are append-only');
END;

CREATE TRIGGER epoch_is_kept BEFORE DELETE ON epoch
BEGIN
    SELECT RAISE(ABORT, 'epochs are append-only');
END;

-- A row here says: this file is a backup; nothing may work on it before it is restored.

CREATE TABLE backup (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    made_at INTEGER NOT NULL
) STRICT;

-- Only executions of the present epoch go on by themselves. An operator's release brings one into it.

ALTER TABLE execution ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;

ALTER TABLE execution ADD COLUMN released_at INTEGER;

ALTER TABLE execution ADD COLUMN release_note TEXT;

-- By how much the provider's clock was ahead of this one at the permission: the claim, which sees only this one,
-- has that much less time (DESIGN, the start, step 7).

ALTER TABLE execution ADD COLUMN provider_ahead INTEGER NOT NULL DEFAULT 0;

DROP INDEX execution_due;

CREATE INDEX execution_due ON execution (epoch, due_at) WHERE due_at IS NOT NULL;

-- Rotation: how long a superseded registration's deliveries are still taken.

ALTER TABLE registration ADD COLUMN superseded_until INTEGER
CHECK (state <> 'superseded' OR superseded_until IS NOT NULL);

-- At most one rotation of an instance is unfinished, and nothing of a registration ever goes back.

ALTER TABLE registration ADD COLUMN replacing INTEGER NOT NULL DEFAULT 0
CHECK (replacing = 0 OR (replacing = 1 AND state IN ('expected', 'verified') AND instance_id IS NOT NULL));

CREATE UNIQUE INDEX registration_replacing ON registration (provider, instance_id) WHERE replacing = 1;

CREATE TRIGGER registration_goes_forward BEFORE UPDATE ON registration
WHEN (new.state <> old.state AND (old.state || ' ' || new.state) NOT IN (
        'expected verified', 'expected retired', 'verified superseded', 'verified retired', 'superseded retired'))
    OR (old.replacing = 1 AND new.instance_id IS NOT old.instance_id)
    OR new.replacing > old.replacing
    OR (old.superseded_until IS NOT NULL
        AND (new.superseded_until IS NULL OR new.superseded_until > old.superseded_until))
BEGIN
    SELECT RAISE(ABORT, 'a registration only goes forward');
END;

-- Every reset of a host's clock mark, for good.

CREATE TABLE clock_reset (
    number INTEGER PRIMARY KEY,
    host TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER NOT NULL,
    actor TEXT NOT NULL
) STRICT;

CREATE TRIGGER clock_reset_is_append_only BEFORE UPDATE ON clock_reset
BEGIN
    SELECT RAISE(ABORT, 'resets of a clock mark are append-only');
END;

CREATE TRIGGER clock_reset_is_kept BEFORE DELETE ON clock_reset
BEGIN
    SELECT RAISE(ABORT, 'resets of a clock mark are append-only');
END;
