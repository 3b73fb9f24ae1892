-- name: create_instances
-- One row per instance, kept after deletion as the deletion record. The creation's idempotency key belongs to the
-- one provisioner; credential and secret are sealed, because a replay returns the one and deliveries need the other.
-- `created_with` is the SHA-256 of the creation's body, because an update changes the columns.
CREATE TABLE instances (
    instance_id TEXT PRIMARY KEY,
    idempotency_key TEXT NOT NULL UNIQUE,
    given_name TEXT,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,
    credential_sha256 BLOB UNIQUE,
    sealed_credential BLOB,
    delivery_url TEXT,
    registration_id TEXT,
    sealed_secret BLOB,
    created_with BLOB,
    CHECK ((deleted_at IS NULL) = (credential_sha256 IS NOT NULL)),
    CHECK ((credential_sha256 IS NULL) = (sealed_credential IS NULL)),
    CHECK ((delivery_url IS NULL) = (registration_id IS NULL)),
    CHECK (CASE WHEN deleted_at IS NULL THEN (delivery_url IS NULL) = (sealed_secret IS NULL) ELSE sealed_secret IS NULL END)
) STRICT

-- name: create_requests
-- One row per request: what was submitted, then its one decision. `resolution` numbers the decisions of this store in
-- their order; `planned_*` is what the policy will decide at `planned_at` if nobody decides before.
CREATE TABLE requests (
    request_id TEXT PRIMARY KEY,
    instance_id TEXT NOT NULL REFERENCES instances (instance_id),
    idempotency_key TEXT NOT NULL,
    tool TEXT NOT NULL,
    submission BLOB NOT NULL,
    approval_ttl INTEGER NOT NULL CHECK (approval_ttl > 0),
    created_at INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL CHECK (deadline_at > created_at),
    planned_at INTEGER,
    planned_status TEXT CHECK (planned_status IN ('approved', 'denied')),
    planned_note TEXT,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'cancelled')),
    resolution INTEGER UNIQUE,
    decided_at INTEGER CHECK (decided_at >= created_at),
    decided_by TEXT CHECK (decided_by IN ('policy', 'review', 'deadline', 'instance', 'deletion')),
    note TEXT,
    expires_at INTEGER CHECK (expires_at > decided_at),
    UNIQUE (instance_id, idempotency_key),
    CHECK ((planned_at IS NULL) = (planned_status IS NULL)),
    CHECK ((status = 'pending') = (resolution IS NULL)),
    CHECK ((status = 'pending') = (decided_at IS NULL)),
    CHECK ((status = 'pending') = (decided_by IS NULL)),
    CHECK ((status = 'approved') = (expires_at IS NOT NULL)),
    CHECK (status <> 'approved' OR decided_at < deadline_at)
) STRICT

-- name: create_requests_by_deadline
-- The timer asks for the soonest deadline of what is still pending.
CREATE INDEX requests_by_deadline ON requests (deadline_at) WHERE status = 'pending'

-- name: create_requests_by_plan
-- The timer asks for the soonest decision that the policy has put off.
CREATE INDEX requests_by_plan ON requests (planned_at) WHERE status = 'pending' AND planned_at IS NOT NULL

-- name: create_requests_pending
-- Deletion cancels an instance's pending requests, and a new request counts them.
CREATE INDEX requests_pending ON requests (instance_id) WHERE status = 'pending'

-- name: create_one_outcome
-- A request has one terminal outcome, for ever, and what was submitted never changes (AAP, provider requirements 4, 7).
CREATE TRIGGER one_outcome BEFORE UPDATE ON requests
WHEN OLD.status <> 'pending'
    OR NEW.request_id IS NOT OLD.request_id OR NEW.instance_id IS NOT OLD.instance_id
    OR NEW.idempotency_key IS NOT OLD.idempotency_key OR NEW.tool IS NOT OLD.tool
    OR NEW.submission IS NOT OLD.submission OR NEW.created_at IS NOT OLD.created_at
    OR NEW.deadline_at IS NOT OLD.deadline_at
BEGIN
    SELECT RAISE(ABORT, 'a request keeps what was submitted and its one outcome');
END

-- name: create_kept_requests
-- Requests are never deleted: they outlive every retention period.
CREATE TRIGGER kept_requests BEFORE DELETE ON requests
BEGIN
    SELECT RAISE(ABORT, 'requests are kept');
END

-- name: create_notifications
-- One notification per decision of an instance with delivery, written in the decision's own transaction. It is owed while
-- fewer deliveries were made than wanted; asking for another one raises `wanted`.
CREATE TABLE notifications (
    event_id TEXT PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE REFERENCES requests (request_id),
    instance_id TEXT NOT NULL REFERENCES instances (instance_id),
    body BLOB NOT NULL,
    wanted INTEGER NOT NULL DEFAULT 1,
    made INTEGER NOT NULL DEFAULT 0 CHECK (made BETWEEN 0 AND wanted),
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL,
    retry_until INTEGER NOT NULL,
    last_result TEXT,
    delivered_at INTEGER,
    ended_at INTEGER
) STRICT

-- name: create_notifications_owed
-- The courier asks for what is owed, the soonest first.
CREATE INDEX notifications_owed ON notifications (next_at, instance_id) WHERE made < wanted AND ended_at IS NULL

-- name: create_updates
-- One row per update of an instance, with what its replay returns. The body is kept as its SHA-256 only: the random
-- secret in it makes that say nothing.
CREATE TABLE updates (
    instance_id TEXT NOT NULL REFERENCES instances (instance_id),
    idempotency_key TEXT NOT NULL,
    submitted_sha256 BLOB NOT NULL CHECK (length(submitted_sha256) = 32),
    result BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (instance_id, idempotency_key)
) STRICT, WITHOUT ROWID
