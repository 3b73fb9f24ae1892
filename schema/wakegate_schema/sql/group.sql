-- name: group_named
SELECT * FROM call_group WHERE provider = :provider AND instance_id = :instance_id AND "group" = :group;

-- name: group_name
SELECT "group" AS name FROM call_group WHERE number = :number;

-- name: group_seal
UPDATE call_group SET sealed_at = :at WHERE number = :number AND sealed_at IS NULL;

-- name: group_calls
SELECT * FROM execution
WHERE provider = :provider AND instance_id = :instance_id AND "group" = :group AND number > :after
ORDER BY number LIMIT :limit;

-- name: group_told
-- The calls that a group's wake tells of, each with the number of its last change.
SELECT execution.*, (
        SELECT MAX(transition.number) FROM transition WHERE transition.execution_id = execution.execution_id
    ) AS last_change
FROM call_group JOIN execution
    ON execution.provider = call_group.provider AND execution.instance_id = call_group.instance_id
    AND execution."group" = call_group."group" AND execution.wake = call_group.wake
WHERE call_group.number = :group_number AND execution.number > :after
ORDER BY execution.number LIMIT :limit;

-- name: groups_open_latest
SELECT call_group.number, call_group.provider, call_group.instance_id, call_group."group", call_group.wake,
    call_group.created_at, call_group.sealed_at, COUNT(execution.number) AS calls,
    COUNT(execution.number) FILTER (WHERE execution.state NOT IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt'))
        AS resolved
FROM call_group JOIN execution
    ON execution.provider = call_group.provider AND execution.instance_id = call_group.instance_id
    AND execution."group" = call_group."group"
WHERE call_group.number IN (
    SELECT number FROM call_group WHERE sealed_at IS NULL AND number < :before ORDER BY number DESC LIMIT :limit
)
GROUP BY call_group.number ORDER BY call_group.number DESC;

-- name: groups_stuck
-- Nobody is told of them until they are sealed, though nothing is to come any more.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM call_group
    WHERE sealed_at IS NULL AND wake <> 'none' AND NOT EXISTS (
        SELECT 1 FROM execution
        WHERE execution.provider = call_group.provider AND execution.instance_id = call_group.instance_id
            AND execution."group" = call_group."group"
            AND execution.state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
    )
    LIMIT :limit
) AS looked_at;
