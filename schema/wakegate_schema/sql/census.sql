-- name: census_executions
-- What is unresolved has an index of its own; what is resolved is counted as it is told of.
SELECT state AS word, COUNT(*) AS count FROM execution
WHERE state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
GROUP BY state;

-- name: census_wakes
SELECT state AS word, COUNT(*) AS count FROM wake
WHERE state IN ('owed', 'undelivered') AND state <> 'delivered'
GROUP BY state;

-- name: census_rest
SELECT
    (SELECT COUNT(*) FROM execution WHERE cancel_due_at IS NOT NULL) AS cancels,
    (SELECT COUNT(*) FROM execution WHERE report_due_at IS NOT NULL) AS reports,
    (SELECT COUNT(*) FROM adoption WHERE due_at IS NOT NULL) AS adoptions,
    (SELECT COUNT(*) FROM notification WHERE state = 'received') AS unhandled,
    (SELECT MIN(changed_at) FROM execution WHERE state = 'in_doubt'
        AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')) AS in_doubt_since,
    (SELECT MIN(lease_until) FROM execution WHERE state = 'started') AS attempt_due,
    (SELECT MIN(cancel_due_at) FROM execution WHERE cancel_due_at IS NOT NULL) AS cancel_due,
    (SELECT MIN(report_due_at) FROM execution WHERE report_due_at IS NOT NULL) AS report_due,
    (SELECT MIN(due_at) FROM adoption WHERE due_at IS NOT NULL
        AND (framework IS NULL OR framework IN (SELECT framework FROM worker_resumer))
        AND NOT EXISTS (
            SELECT 1 FROM adoption AS other
            WHERE other.framework = adoption.framework AND other.thread = adoption.thread
                AND other.run_until IS NOT NULL AND other.number <> adoption.number
        )) AS adoption_due,
    (SELECT MIN(due_at) FROM wake WHERE due_at IS NOT NULL) AS wake_due;

-- name: told
-- What was told since, with the times of its attempt.
SELECT resolution.number, resolution.from_state, resolution.to_state, execution.decided_at, execution.started_at,
    execution.expires_at
FROM resolution JOIN execution ON execution.execution_id = resolution.execution_id
WHERE resolution.number > :after ORDER BY resolution.number LIMIT :limit;
