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

DROP INDEX execution_due;

CREATE INDEX execution_due ON execution (epoch, due_at) WHERE due_at IS NOT NULL;

-- Rotation: how long a superseded registration's deliveries are still taken.

ALTER TABLE registration ADD COLUMN superseded_until INTEGER
CHECK (state <> 'superseded' OR superseded_until IS NOT NULL);
