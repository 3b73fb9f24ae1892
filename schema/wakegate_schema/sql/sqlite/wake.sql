-- name: lease_wakes
UPDATE wake SET due_at = :until
WHERE wake_id IN (
    SELECT wake_id FROM wake WHERE due_at IS NOT NULL AND due_at <= :at ORDER BY due_at LIMIT :limit
)
RETURNING *;

-- name: wake_delivered
-- Also one that somebody else had given up: the harness says that it knows.
UPDATE wake SET state = 'delivered', delivered_at = :at, due_at = NULL, problem = NULL
WHERE wake_id = :wake_id AND state <> 'delivered';

-- name: wake_failed
UPDATE wake
SET tries = tries + 1, problem = :problem, due_at = :due_at,
    state = CASE WHEN :due_at IS NULL THEN 'undelivered' ELSE 'owed' END
WHERE wake_id = :wake_id AND state = 'owed';

-- name: wakes_of_execution
SELECT * FROM wake WHERE execution_id = :execution_id ORDER BY number;

-- name: bring_forward_wakes
UPDATE wake SET due_at = :at WHERE due_at > :beyond;
