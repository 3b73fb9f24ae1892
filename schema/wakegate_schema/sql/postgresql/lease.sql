-- name: lease_due
-- What an owner that has said which tools it has can work on: what a harness runs, and what is for one of its tools
-- at the version that it has, or at none. However much is due for other tools, nothing of it is looked at.
-- due_at moves to the end of the lease, so that a worker's death makes the execution due again by itself.
-- An owner without a lease has passed the execution on: everybody else has a head start.
UPDATE execution
SET lease_number = lease_number + 1, lease_owner = :owner, lease_until = :until, due_at = :until
WHERE number IN (
    SELECT number FROM (
        SELECT * FROM (
            SELECT number, due_at FROM execution
            WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'harness'
                AND due_at <= :at AND (lease_until <= :at
                OR lease_until IS NULL AND (lease_owner IS DISTINCT FROM :owner OR due_at <= :at - :head_start))
            ORDER BY due_at LIMIT :limit
        ) AS harness
        UNION ALL
        SELECT due.number, due.due_at
        FROM (
            SELECT tool, version FROM worker_tool WHERE worker_id = :owner
            UNION ALL SELECT tool, '' FROM worker_tool WHERE worker_id = :owner
        ) AS mine
        CROSS JOIN (VALUES ('waiting'), ('submitting'), ('saved')) AS undecided (state)
        CROSS JOIN LATERAL (
            SELECT number, due_at FROM execution
            WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
                AND tool = mine.tool AND COALESCE(tool_version, '') = mine.version AND state = undecided.state
                AND due_at <= :at AND (lease_until <= :at
                OR lease_until IS NULL AND (lease_owner IS DISTINCT FROM :owner OR due_at <= :at - :head_start))
            ORDER BY due_at LIMIT :limit
        ) AS due
    ) AS all_due
    ORDER BY due_at LIMIT :limit
)
RETURNING *;

-- name: next_due_at
-- Of the same executions. A row under a lease counts from the lease's end; a few rows of each kind suffice, since a
-- hint too late is found by the sweep.
SELECT MIN(at) AS at FROM (
    SELECT CASE
        WHEN lease_until IS NULL AND lease_owner = :owner THEN due_at + :head_start
        ELSE GREATEST(due_at, COALESCE(lease_until, 0))
    END AS at
    FROM (
        SELECT * FROM (
            SELECT due_at, lease_until, lease_owner FROM execution
            WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'harness'
            ORDER BY due_at LIMIT 20
        ) AS harness
        UNION ALL
        SELECT due.due_at, due.lease_until, due.lease_owner
        FROM (
            SELECT tool, version FROM worker_tool WHERE worker_id = :owner
            UNION ALL SELECT tool, '' FROM worker_tool WHERE worker_id = :owner
        ) AS mine
        CROSS JOIN (VALUES ('waiting'), ('submitting'), ('saved')) AS undecided (state)
        CROSS JOIN LATERAL (
            SELECT due_at, lease_until, lease_owner FROM execution
            WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
                AND tool = mine.tool AND COALESCE(tool_version, '') = mine.version AND state = undecided.state
            ORDER BY due_at LIMIT 20
        ) AS due
    ) AS all_due
) AS soonest;
