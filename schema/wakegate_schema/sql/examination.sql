-- name: examine_last_states
-- The history must end where the execution stands.
SELECT execution.execution_id AS subject, execution.state || ' is not where its history ends' AS fault
FROM execution
WHERE execution.state IS DISTINCT FROM (
    SELECT to_state FROM transition WHERE transition.execution_id = execution.execution_id ORDER BY number DESC LIMIT 1
)
LIMIT :limit;

-- name: examine_histories
-- Every change begins where the one before has ended, and takes an arrow; only a release stays in its state.
SELECT later.execution_id AS subject,
    'change ' || later.number || ', ' || COALESCE(later.from_state, 'nothing') || ' to ' || later.to_state
        || ', does not follow from the one before' AS fault
FROM transition AS later LEFT JOIN transition AS earlier
    ON earlier.execution_id = later.execution_id AND earlier.number = later.number - 1
WHERE later.from_state IS DISTINCT FROM earlier.to_state
    OR (later.number = 1) <> (earlier.number IS NULL)
    OR (later.number = 1 AND later.to_state <> 'saved')
    OR (later.number > 1 AND NOT EXISTS (
            SELECT 1 FROM arrow WHERE arrow.from_state = later.from_state AND arrow.to_state = later.to_state
        ) AND NOT (later.from_state IS NOT DISTINCT FROM later.to_state AND later.reason IS NOT DISTINCT FROM :released))
LIMIT :limit;

-- name: examine_starts
-- A permission is spent at most once, and exactly when the execution says so.
SELECT execution.execution_id AS subject, 'has started ' || COUNT(transition.number) || ' times' AS fault
FROM execution LEFT JOIN transition
    ON transition.execution_id = execution.execution_id AND transition.to_state = 'started'
GROUP BY execution.execution_id, execution.started_at
HAVING COUNT(transition.number) <> CASE WHEN execution.started_at IS NULL THEN 0 ELSE 1 END
LIMIT :limit;

-- name: examine_wakes
-- What a harness is to hear of is owed, delivered or given up.
SELECT transition.execution_id AS subject, 'nobody was told of ' || transition.to_state AS fault
FROM transition {ordered_join} execution ON execution.execution_id = transition.execution_id
WHERE execution.wake <> 'none' AND transition.to_state NOT IN ('saved', 'submitting', 'waiting', 'started')
    AND (transition.to_state <> 'permitted' OR execution.runs = 'harness')
    AND (transition.to_state IN ('permitted', 'in_doubt') OR NOT EXISTS (
        SELECT 1 FROM call_group
        WHERE call_group.provider = execution.provider AND call_group.instance_id = execution.instance_id
            AND call_group."group" = execution."group" AND call_group.wake = execution.wake
    ))
    AND NOT EXISTS (
        SELECT 1 FROM wake
        WHERE wake.execution_id = transition.execution_id AND wake.number = transition.number
    )
LIMIT :limit;

-- name: examine_groups
-- A sealed group that is resolved is told of once; one from before there were groups was told of call by call.
SELECT call_group."group" AS subject, 'nobody was told of the group' AS fault
FROM call_group
WHERE call_group.sealed_at IS NOT NULL AND call_group.wake <> 'none'
    AND NOT EXISTS (SELECT 1 FROM wake WHERE wake.group_number = call_group.number)
    AND EXISTS (
        SELECT 1 FROM execution
        WHERE execution.provider = call_group.provider AND execution.instance_id = call_group.instance_id
            AND execution."group" = call_group."group" AND execution.wake = call_group.wake
            AND NOT EXISTS (
                SELECT 1 FROM wake
                WHERE wake.execution_id = execution.execution_id AND wake.to_state = execution.state
            ))
    AND NOT EXISTS (
        SELECT 1 FROM execution
        WHERE execution.provider = call_group.provider AND execution.instance_id = call_group.instance_id
            AND execution."group" = call_group."group" AND execution.wake = call_group.wake
            AND execution.state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
    )
LIMIT :limit;

-- name: examine_epochs
SELECT execution_id AS subject, 'is of epoch ' || epoch || ', which has not begun' AS fault
FROM execution WHERE epoch NOT IN (SELECT number FROM epoch) AND epoch > (SELECT MAX(number) FROM epoch)
LIMIT :limit;

-- name: examine_counts
SELECT
    (SELECT COUNT(*) FROM execution) AS executions,
    (SELECT COUNT(*) FROM notification) AS notifications,
    (SELECT COUNT(*) FROM execution
     WHERE state = 'in_doubt'
        AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')) AS in_doubt,
    (SELECT COUNT(*) FROM execution
     WHERE state IN ('saved', 'submitting', 'waiting', 'permitted')
        AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
        AND epoch < (SELECT MAX(number) FROM epoch)) AS held;
