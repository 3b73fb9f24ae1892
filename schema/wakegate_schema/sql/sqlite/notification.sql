-- name: notifications_among
-- CROSS JOIN keeps the order: one look-up in the index for each wanted row. A row-value IN would scan the table.
WITH wanted (provider, event_id) AS (VALUES (?, ?){rows})
SELECT found.provider, found.event_id, found.instance_id, found.request_id, found.body
FROM wanted CROSS JOIN notification AS found
    ON found.provider = wanted.provider AND found.event_id = wanted.event_id;

-- name: notification_add
-- OR FAIL: SQLite need not copy each page it changes in case that a later row is refused. Whoever sees a refusal goes back
-- to his savepoint, or to the beginning.
INSERT OR FAIL INTO notification
    (provider, instance_id, event_id, request_id, registration_id, state, reason, created_at, received_at, handled_at,
     keep_until, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?){rows}
ON CONFLICT (provider, event_id) DO NOTHING;

-- name: executions_notified
WITH wanted (provider, instance_id, request_id) AS (VALUES (?, ?, ?){rows})
SELECT found.provider, found.instance_id, found.request_id, found.state
FROM wanted CROSS JOIN execution AS found
    ON found.provider = wanted.provider AND found.instance_id = wanted.instance_id
    AND found.request_id = wanted.request_id;

-- name: executions_make_due
-- Under a lease the hint is kept as a due_at before the lease's end, whatever clock it came by: `release` sees it.
UPDATE execution SET due_at = MIN(due_at, ?, COALESCE(lease_until - 1, due_at))
WHERE number IN (
    WITH wanted (provider, instance_id, request_id) AS (VALUES (?, ?, ?){rows})
    SELECT found.number
    FROM wanted CROSS JOIN execution AS found
        ON found.provider = wanted.provider AND found.instance_id = wanted.instance_id
        AND found.request_id = wanted.request_id
    WHERE found.state = 'waiting'
);
