-- name: request_by_key
-- The request that a creation with this idempotency key made, for this instance only.
SELECT * FROM whole_requests WHERE instance_id = :instance_id AND idempotency_key = :idempotency_key

-- name: request_by_id
-- The request with this id, whoever owns it.
SELECT * FROM whole_requests WHERE request_id = :request_id

-- name: request_of_instance
-- The request with this id, if this live instance owns it.
SELECT whole_requests.* FROM whole_requests JOIN instances USING (instance_id)
WHERE request_id = :request_id AND instance_id = :instance_id AND deleted_at IS NULL

-- name: count_pending
-- How many requests of an instance are outstanding.
SELECT count(*) AS pending FROM requests WHERE instance_id = :instance_id AND status = 'pending'

-- name: insert_request
-- A new pending request; the caller holds the transaction in which the key was found unused.
INSERT INTO requests (
    request_id, instance_id, idempotency_key, tool, submission, approval_ttl, created_at, deadline_at,
    planned_at, planned_status, planned_note
) VALUES (
    :request_id, :instance_id, :idempotency_key, :tool, :submission, :approval_ttl, :created_at, :deadline_at,
    :planned_at, :planned_status, :planned_note
)

-- name: list_requests
-- Requests with their notifications, the newest first; any status when none is given.
SELECT whole_requests.*, event_id, wanted, made, attempts, next_at, last_result, delivered_at, ended_at
FROM whole_requests LEFT JOIN notifications USING (request_id)
WHERE (:status IS NULL OR status = :status)
ORDER BY created_at DESC, whole_requests.request_id
LIMIT :limit

-- name: requests_from
-- Requests whose ids begin so: nothing in an id sorts after 'f'.
SELECT request_id AS id FROM requests WHERE request_id >= :prefix AND request_id < :prefix || 'g'
ORDER BY request_id LIMIT :limit

-- name: listed_request
-- One request with its notification.
SELECT whole_requests.*, event_id, wanted, made, attempts, next_at, last_result, delivered_at, ended_at
FROM whole_requests LEFT JOIN notifications USING (request_id)
WHERE request_id = :request_id
