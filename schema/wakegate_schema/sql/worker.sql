-- name: worker_add
INSERT INTO worker (worker_id, host, pool, version, migration, lease_seconds, started_at, seen_at)
VALUES (:worker_id, :host, :pool, :version, :migration, :lease_seconds, :started_at, :at);

-- name: worker_tool_add
INSERT INTO worker_tool (worker_id, tool, version) VALUES (:worker_id, :tool, :version);

-- name: worker_resumer_add
INSERT INTO worker_resumer (worker_id, framework) VALUES (:worker_id, :framework);

-- name: worker_resumers_remove
DELETE FROM worker_resumer WHERE worker_id = :worker_id;

-- name: worker_resumers
SELECT worker_id, framework FROM worker_resumer ORDER BY worker_id, framework;

-- name: worker_seen
UPDATE worker SET seen_at = :at WHERE worker_id = :worker_id;

-- name: worker_tools_remove
DELETE FROM worker_tool WHERE worker_id = :worker_id;

-- name: worker_remove
DELETE FROM worker WHERE worker_id = :worker_id;

-- name: workers_silent
-- Those whose sign of life is too old, or that a clock far ahead gave.
SELECT worker_id FROM worker WHERE seen_at < :before OR seen_at > :beyond;

-- name: worker_is_known
SELECT 1 FROM worker WHERE worker_id = :owner;

-- name: workers
SELECT * FROM worker ORDER BY pool, host, started_at, worker_id;

-- name: worker_tools
SELECT worker_id, tool, version FROM worker_tool ORDER BY worker_id, tool;

-- name: living_pools
SELECT DISTINCT pool FROM worker WHERE seen_at > :since;

-- name: longest_lease
SELECT MAX(lease_seconds) AS seconds FROM worker;

-- name: workers_before
-- Workers that live and know no migration as late as this one.
SELECT host, version FROM worker WHERE seen_at > :since AND migration < :number ORDER BY migration, host LIMIT 1;

-- name: missing_tools
-- Which tools undecided calls name that no living worker has, and at which version; '' for calls that declare none.
-- By steps from one to the next over the index, however many calls there are.
WITH RECURSIVE wanted_tool (tool) AS (
    SELECT (
        SELECT tool FROM execution
        WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
        ORDER BY tool LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT tool FROM execution
        WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
            AND tool > wanted_tool.tool
        ORDER BY tool LIMIT 1
    )
    FROM wanted_tool WHERE wanted_tool.tool IS NOT NULL
), wanted (tool, version) AS (
    SELECT wanted_tool.tool, (
        SELECT COALESCE(tool_version, '') FROM execution
        WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
            AND tool = wanted_tool.tool
        ORDER BY COALESCE(tool_version, '') LIMIT 1
    )
    FROM wanted_tool WHERE wanted_tool.tool IS NOT NULL
    UNION ALL
    SELECT wanted.tool, (
        SELECT COALESCE(tool_version, '') FROM execution
        WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
            AND tool = wanted.tool AND COALESCE(tool_version, '') > wanted.version
        ORDER BY COALESCE(tool_version, '') LIMIT 1
    )
    FROM wanted WHERE wanted.version IS NOT NULL
)
SELECT tool, version FROM wanted
WHERE version IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM worker_tool JOIN worker ON worker.worker_id = worker_tool.worker_id
    WHERE worker.seen_at > :since AND worker_tool.tool = wanted.tool
        AND (wanted.version = '' OR worker_tool.version = wanted.version)
)
ORDER BY tool, version;

-- name: calls_missing_a_tool
-- No more than `limit` are counted, however many there are.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM execution
    WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
        AND tool = :tool AND COALESCE(tool_version, '') = :version
    LIMIT :limit
) AS counted;

-- name: lease_orphans
-- Calls in one state whose tool no worker has.
UPDATE execution
SET lease_number = lease_number + 1, lease_owner = :owner, lease_until = :until, due_at = :until
WHERE number IN (
    SELECT number FROM execution
    WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND runs = 'worker'
        AND tool = :tool AND COALESCE(tool_version, '') = :version AND state = :state AND due_at <= :before
        AND (lease_until IS NULL OR lease_until <= :at)
    ORDER BY due_at LIMIT :limit
)
RETURNING *;
