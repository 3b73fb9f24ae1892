-- name: decide
-- The one guarded change from pending to an outcome; no row changed means that there already was one.
UPDATE requests
SET status = :status, decided_at = :decided_at, decided_by = :decided_by, note = :note, expires_at = :expires_at,
    resolution = (SELECT coalesce(max(resolution), 0) + 1 FROM requests)
WHERE request_id = :request_id AND status = 'pending'

-- name: insert_notification
-- The decision's notification, if its instance has delivery; runs in the decision's transaction.
INSERT INTO notifications (event_id, request_id, instance_id, body, next_at, retry_until)
SELECT :event_id, :request_id, instance_id, :body, :next_at, :retry_until
FROM instances WHERE instance_id = :instance_id AND delivery_url IS NOT NULL AND deleted_at IS NULL

-- name: overdue
-- Pending requests whose deadline has passed, a bounded step of them.
SELECT * FROM whole_requests WHERE status = 'pending' AND deadline_at <= :now ORDER BY deadline_at LIMIT :limit

-- name: planned
-- Pending requests whose decision by policy is due, a bounded step of them.
SELECT * FROM whole_requests WHERE status = 'pending' AND planned_at IS NOT NULL AND planned_at <= :now
ORDER BY planned_at LIMIT :limit

-- name: next_due
-- When the timer has something to do next; null when nothing is pending.
SELECT min(due_at) AS due_at FROM (
    SELECT min(deadline_at) AS due_at FROM requests WHERE status = 'pending'
    UNION ALL
    SELECT min(planned_at) FROM requests WHERE status = 'pending' AND planned_at IS NOT NULL
)

-- name: last_resolution
-- The number of the newest decision.
SELECT coalesce(max(resolution), 0) AS resolution FROM requests

-- name: resolved_since
-- What has been decided after that decision, by this process or by another.
SELECT request_id, resolution FROM requests WHERE resolution > :resolution ORDER BY resolution LIMIT :limit
