-- name: instance_by_key
-- The instance that a creation with this idempotency key made, deleted or not.
SELECT * FROM instances WHERE idempotency_key = :idempotency_key

-- name: instance_by_id
-- The instance with this id, deleted or not.
SELECT * FROM instances WHERE instance_id = :instance_id

-- name: instance_by_credential
-- The live instance that this credential belongs to.
SELECT * FROM instances WHERE credential_sha256 = :credential_sha256 AND deleted_at IS NULL

-- name: first_sealed
-- Any live instance: its credential shows at the start whether the key is the right one.
SELECT instance_id, sealed_credential FROM instances WHERE deleted_at IS NULL LIMIT 1

-- name: count_instances
-- How many instances live.
SELECT count(*) AS instances FROM instances WHERE deleted_at IS NULL

-- name: insert_instance
-- A verified instance; the caller holds the transaction in which the key was found unused.
INSERT INTO instances (
    instance_id, idempotency_key, given_name, name, created_at, credential_sha256, sealed_credential,
    delivery_url, registration_id, sealed_secret, created_with
) VALUES (
    :instance_id, :idempotency_key, :given_name, :name, :created_at, :credential_sha256, :sealed_credential,
    :delivery_url, :registration_id, :sealed_secret, :created_with
)

-- name: update_by_key
-- The update that this idempotency key made of the instance.
SELECT submitted_sha256, result FROM updates
WHERE instance_id = :instance_id AND idempotency_key = :idempotency_key

-- name: insert_update
-- An update with what its replay returns; runs in the transaction of the update itself.
INSERT INTO updates (instance_id, idempotency_key, submitted_sha256, result, updated_at)
VALUES (:instance_id, :idempotency_key, :submitted_sha256, :result, :updated_at)

-- name: rename_instance
-- Another name.
UPDATE instances SET name = :name WHERE instance_id = :instance_id AND deleted_at IS NULL

-- name: replace_delivery
-- Another receiver, or none: what is queued goes there from the next attempt on.
UPDATE instances
SET delivery_url = :delivery_url, registration_id = :registration_id, sealed_secret = :sealed_secret
WHERE instance_id = :instance_id AND deleted_at IS NULL

-- name: delete_instance
-- Leave the deletion record only: credential and secret are gone with this statement.
UPDATE instances
SET deleted_at = :deleted_at, credential_sha256 = NULL, sealed_credential = NULL, sealed_secret = NULL
WHERE instance_id = :instance_id AND deleted_at IS NULL

-- name: cancel_pending
-- Deletion cancels what is pending, without notifications (AAP, provider requirement 11). The window function numbers
-- the decisions after the last one.
UPDATE requests
SET status = 'cancelled', decided_at = max(created_at, :deleted_at), decided_by = 'deletion',
    resolution = numbered.resolution
FROM (
    SELECT request_id,
        (SELECT coalesce(max(resolution), 0) FROM requests) + row_number() OVER (ORDER BY created_at, request_id)
            AS resolution
    FROM requests WHERE instance_id = :instance_id AND status = 'pending'
) AS numbered
WHERE requests.request_id = numbered.request_id

-- name: end_deliveries
-- Deletion, and the removal of the delivery, end what is queued.
UPDATE notifications SET ended_at = :deleted_at
WHERE instance_id = :instance_id AND made < wanted AND ended_at IS NULL
