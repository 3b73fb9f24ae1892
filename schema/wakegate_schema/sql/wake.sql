-- name: lease_wakes_for
UPDATE wake SET due_at = :until
WHERE wake_id IN (
    SELECT wake_id FROM wake
    WHERE target = :target AND due_at IS NOT NULL AND due_at <= :at ORDER BY due_at LIMIT :limit
)
RETURNING *;

-- name: wake_keep
-- Only while nobody else has it: whoever leases or replays it sets another time.
WITH item (wake_id, since, until) AS {batch text, bigint, bigint}
UPDATE wake SET due_at = item.until
FROM item
WHERE wake.wake_id = item.wake_id AND state || '' = 'owed' AND due_at = item.since
RETURNING wake.wake_id;

-- name: wake_delivered
-- Also one that somebody else had given up: the harness says that it knows.
WITH item (wake_id, at) AS {batch text, bigint}
UPDATE wake SET state = 'delivered', delivered_at = item.at, due_at = NULL, problem = NULL
FROM item
WHERE wake.wake_id = item.wake_id AND state <> 'delivered';

-- name: wake_failed
WITH item (wake_id, due_at, problem) AS {batch text, bigint, text}
UPDATE wake
SET tries = tries + 1, problem = item.problem, due_at = item.due_at,
    state = CASE WHEN item.due_at IS NULL THEN 'undelivered' ELSE 'owed' END
FROM item
WHERE wake.wake_id = item.wake_id AND state || '' = 'owed';

-- name: wake_replay
UPDATE wake
SET state = 'owed', tries = 0, problem = NULL, due_at = :at, owed_since = :at, delivered_at = NULL
WHERE wake_id = :wake_id
RETURNING *;

-- name: wake
SELECT * FROM wake WHERE wake_id = :wake_id;

-- name: wakes_from
-- A prefix is a range of the ids: nothing in an id sorts after 'f'.
SELECT * FROM wake WHERE wake_id >= :prefix AND wake_id < :prefix || 'g' ORDER BY wake_id LIMIT :limit;

-- name: wakes_latest
SELECT rowid AS place, * FROM wake WHERE rowid < :before ORDER BY rowid DESC LIMIT :limit;

-- name: wakes_latest_in_state
SELECT rowid AS place, * FROM wake WHERE state = :state AND rowid < :before ORDER BY rowid DESC LIMIT :limit;

-- name: wakes_latest_not_delivered_in_state
SELECT rowid AS place, * FROM wake
WHERE state = :state AND state <> 'delivered' AND rowid < :before ORDER BY rowid DESC LIMIT :limit;

-- name: wakes_of_execution
-- Its own, and that of its group.
SELECT * FROM wake WHERE execution_id = :execution_id
UNION
SELECT wake.*
FROM execution JOIN call_group
    ON call_group.provider = execution.provider AND call_group.instance_id = execution.instance_id
    AND call_group."group" = execution."group" AND call_group.wake = execution.wake
JOIN wake ON wake.group_number = call_group.number
WHERE execution.execution_id = :execution_id
ORDER BY created_at, number;

-- name: bring_forward_wakes
UPDATE wake SET due_at = :at WHERE due_at > :beyond;
