-- name: due_notifications
-- What is owed and due, the soonest first, at most so many of one instance, so that a dead receiver cannot hold up
-- the others.
SELECT * FROM (
    SELECT event_id, instance_id, body, attempts, next_at, retry_until, delivery_url, registration_id, sealed_secret,
        row_number() OVER (PARTITION BY instance_id ORDER BY next_at, event_id) AS position
    FROM notifications JOIN instances USING (instance_id)
    WHERE made < wanted AND ended_at IS NULL AND deleted_at IS NULL
        AND delivery_url IS NOT NULL AND next_at <= :now
)
WHERE position <= :per_instance
ORDER BY next_at

-- name: next_notification
-- When the next attempt is due after this moment.
SELECT min(next_at) AS next_at FROM notifications WHERE made < wanted AND ended_at IS NULL AND next_at > :now

-- name: delivered
-- A 2xx ends one wanted delivery.
UPDATE notifications
SET made = made + 1, attempts = attempts + 1, last_result = :result, delivered_at = :now, next_at = :now
WHERE event_id = :event_id AND made < wanted

-- name: not_delivered
-- Any other answer is tried again at `next_at`; the attempt at the end of the window is the last one.
UPDATE notifications
SET attempts = attempts + 1, last_result = :result, next_at = min(:next_at, retry_until),
    ended_at = CASE WHEN :now >= retry_until THEN :now END
WHERE event_id = :event_id AND made < wanted AND ended_at IS NULL

-- name: redeliver
-- Want one more delivery, within the retry window and only while the instance lives and has a receiver.
UPDATE notifications SET wanted = wanted + 1, next_at = :now, ended_at = NULL
WHERE event_id = :event_id AND retry_until > :now
    AND instance_id IN (SELECT instance_id FROM instances WHERE deleted_at IS NULL AND delivery_url IS NOT NULL)

-- name: notification_by_id
-- One notification.
SELECT * FROM notifications WHERE event_id = :event_id

-- name: notifications_from
-- Notifications whose ids begin so: nothing in an id sorts after 'f'.
SELECT event_id AS id FROM notifications WHERE event_id >= :prefix AND event_id < :prefix || 'g'
ORDER BY event_id LIMIT :limit
