-- name: copy_wake
-- The row number that PostgreSQL has as a column.
SELECT wake_id, rowid, execution_id, number, target, state, tries, problem, due_at, created_at, delivered_at, to_state,
    group_number, owed_since
FROM wake ORDER BY rowid;

-- name: copy_into_probe
INSERT INTO probe VALUES (?){row};

-- name: copy_into_clock_mark
INSERT INTO clock_mark VALUES (?){row};

-- name: copy_into_clock_reset
INSERT INTO clock_reset VALUES (?){row};

-- name: copy_into_epoch
INSERT INTO epoch VALUES (?){row};

-- name: copy_into_registration
INSERT INTO registration VALUES (?){row};

-- name: copy_into_instance
INSERT INTO instance VALUES (?){row};

-- name: copy_into_notification
INSERT INTO notification VALUES (?){row};

-- name: copy_into_anomaly
INSERT INTO anomaly VALUES (?){row};

-- name: copy_into_call_group
INSERT INTO call_group VALUES (?){row};

-- name: copy_into_execution
INSERT INTO execution VALUES (?){row};

-- name: copy_into_transition
INSERT INTO transition VALUES (?){row};

-- name: copy_into_resolution
INSERT INTO resolution VALUES (?){row};

-- name: copy_into_consuming_provider
INSERT INTO consuming_provider VALUES (?){row};

-- name: copy_into_adoption
INSERT INTO adoption VALUES (?){row};

-- name: copy_into_adoption_mark
INSERT INTO adoption_mark VALUES (?){row};

-- name: copy_into_numbering
INSERT INTO numbering VALUES (?){row};

-- name: copy_into_wake
INSERT INTO wake
    (wake_id, rowid, execution_id, number, target, state, tries, problem, due_at, created_at, delivered_at, to_state,
     group_number, owed_since)
VALUES (?){row};

-- name: guards
-- The triggers, which keep the store's rules: how each is taken away while rows of a store that kept them are copied, and
-- how it is made again.
SELECT 'DROP TRIGGER "' || name || '"' AS lifted, sql AS set_again FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid;

-- name: counters
-- The last number that was given in each table whose numbers never come again.
SELECT name AS "table", seq AS last FROM sqlite_sequence;

-- name: counter_forget
DELETE FROM sqlite_sequence WHERE name = :table;

-- name: counter_set
INSERT INTO sqlite_sequence (name, seq)
SELECT :table, :last WHERE :table IN ('notification', 'execution', 'call_group', 'resolution', 'adoption');

-- name: copied_statistics
-- Queries say themselves which index they mean.
SELECT 1;
