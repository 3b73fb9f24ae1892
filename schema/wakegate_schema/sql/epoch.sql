-- name: epoch_present
SELECT * FROM epoch ORDER BY number DESC LIMIT 1;

-- name: epoch_raise
-- It begins no earlier than the one before, whatever the clock says.
INSERT INTO epoch (number, reason, actor, at) SELECT MAX(number) + 1, :reason, :actor, {greatest}(:at, MAX(at)) FROM epoch;

-- name: epoch_hold_older
-- What has not started may have, in the time that the store does not know of. Its leases are void.
UPDATE execution
SET problem = :problem, tries = 0, lease_number = lease_number + 1, lease_until = NULL, lease_owner = NULL
WHERE state IN ('saved', 'submitting', 'waiting', 'permitted')
    AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
    AND epoch < (SELECT MAX(number) FROM epoch);

-- name: epoch_end_attempts
-- Whoever ran these is gone, or does not know this store: the sweep puts them in doubt.
UPDATE execution SET lease_until = :at WHERE state = 'started' AND lease_until > :at;

-- name: epoch_hold_attached
-- One that the provider knew before this epoch began was submitted in the time that the store does not know of.
WITH item (execution_id, problem, margin) AS {batch text, text, bigint}
UPDATE execution
SET epoch = epoch - 1, problem = item.problem, tries = 0, lease_number = lease_number + 1, lease_until = NULL,
    lease_owner = NULL
FROM item
WHERE execution.execution_id = item.execution_id AND state || '' = 'waiting' AND released_at IS NULL
    AND epoch > 1 AND epoch = (SELECT MAX(number) FROM epoch)
    AND request_created_at < item.margin + (SELECT at FROM epoch ORDER BY number DESC LIMIT 1);

-- name: epoch_release
UPDATE execution
SET epoch = (SELECT MAX(number) FROM epoch), released_at = :at, release_note = :note, problem = NULL, tries = 0,
    due_at = CASE WHEN due_at IS NOT NULL THEN :at END, lease_until = NULL, lease_owner = NULL
WHERE execution_id = :execution_id AND state IN ('saved', 'submitting', 'waiting', 'permitted')
    AND epoch < (SELECT MAX(number) FROM epoch)
RETURNING state;

-- name: epoch_note_release
INSERT INTO transition (execution_id, number, from_state, to_state, reason, actor, at)
SELECT :execution_id, MAX(number) + 1, :state, :state, :reason, :actor, :at
FROM transition WHERE execution_id = :execution_id;

-- name: executions_held
SELECT * FROM execution
WHERE state IN ('saved', 'submitting', 'waiting', 'permitted')
    AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
    AND epoch < (SELECT MAX(number) FROM epoch) AND number > :after
ORDER BY number LIMIT :limit;

-- name: backup_mark
INSERT INTO backup (id, made_at) VALUES (1, :at);

-- name: backup_made_at
SELECT made_at FROM backup;

-- name: backup_unmark
DELETE FROM backup;
