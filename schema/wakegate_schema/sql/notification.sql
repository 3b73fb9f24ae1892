-- name: notification_duplicate
UPDATE notification SET duplicates = duplicates + 1 WHERE provider = :provider AND event_id = :event_id;

-- name: notification_add_latest
-- What a batch has just added, where nobody else can add meanwhile: SQLite's way to ask which rows were new.
SELECT provider, event_id FROM notification WHERE number > 0 ORDER BY number DESC LIMIT :count;

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
