-- name: notifications_among
-- CROSS JOIN keeps the order: one look-up in the index for each wanted row. A row-value IN would scan the table.
WITH wanted (provider, event_id) AS (VALUES (?, ?){rows})
SELECT found.provider, found.event_id, found.instance_id, found.request_id, found.body
FROM wanted CROSS JOIN notification AS found
    ON found.provider = wanted.provider AND found.event_id = wanted.event_id;

-- name: notification_add
INSERT INTO notification
    (provider, instance_id, event_id, request_id, registration_id, state, reason, created_at, received_at, handled_at,
     keep_until, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?){rows};

-- name: notification_duplicate
UPDATE notification SET duplicates = duplicates + 1 WHERE provider = :provider AND event_id = :event_id;

-- name: notification_unhandled
SELECT 1 FROM notification
WHERE provider = :provider AND instance_id = :instance_id AND request_id = :request_id AND state = 'received' LIMIT 1;

-- name: notification
-- The providers are few, and the index begins with them.
SELECT * FROM notification
WHERE provider IN (SELECT provider FROM registration) AND event_id = :event_id;

-- name: notifications
SELECT * FROM notification WHERE number > :after ORDER BY number LIMIT :limit;

-- name: notifications_latest
SELECT * FROM notification WHERE number < :before ORDER BY number DESC LIMIT :limit;

-- name: notifications_from
SELECT * FROM notification
WHERE provider IN (SELECT provider FROM registration) AND event_id >= :prefix AND event_id < :prefix || 'g'
LIMIT :limit;

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
