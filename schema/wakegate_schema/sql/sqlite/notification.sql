-- name: notifications_among
SELECT provider, event_id, instance_id, request_id, body FROM notification
WHERE (provider, event_id) IN (VALUES (?, ?){rows});

-- name: notification_add
INSERT INTO notification
    (provider, instance_id, event_id, request_id, registration_id, state, reason, created_at, received_at, handled_at,
     keep_until, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?){rows};

-- name: notification_duplicate
UPDATE notification SET duplicates = duplicates + 1 WHERE provider = :provider AND event_id = :event_id;

-- name: notification_discard
UPDATE notification SET state = 'discarded', reason = :reason, handled_at = :at
WHERE provider = :provider AND instance_id = :instance_id AND request_id = :request_id AND state = 'received';

-- name: notification_unhandled
SELECT 1 FROM notification
WHERE provider = :provider AND instance_id = :instance_id AND request_id = :request_id AND state = 'received' LIMIT 1;

-- name: notification
SELECT * FROM notification WHERE event_id = :event_id;

-- name: notifications
SELECT * FROM notification WHERE number > :after ORDER BY number LIMIT :limit;

-- name: executions_notified
SELECT provider, instance_id, request_id, state FROM execution
WHERE (provider, instance_id, request_id) IN (VALUES (?, ?, ?){rows});

-- name: executions_make_due
-- Also under a lease: giving it back then leaves the execution due.
UPDATE execution SET due_at = MIN(due_at, ?)
WHERE state = 'waiting' AND (provider, instance_id, request_id) IN (VALUES (?, ?, ?){rows});
