-- name: create_consumptions
-- One row per approval that was spent: the key that spent it, and what was told of the call afterwards. An earlier
-- provider leaves the row alone, so this came without another version of the store.
CREATE TABLE consumptions (
    request_id TEXT PRIMARY KEY REFERENCES requests (request_id),
    idempotency_key TEXT NOT NULL,
    consumed_at INTEGER NOT NULL,
    outcome TEXT CHECK (outcome IN ('succeeded', 'failed')),
    outcome_note TEXT CHECK (outcome_note <> ''),
    reported_at INTEGER CHECK (reported_at >= consumed_at),
    CHECK ((outcome IS NULL) = (reported_at IS NULL)),
    CHECK (outcome IS NOT NULL OR outcome_note IS NULL)
) STRICT, WITHOUT ROWID

-- name: create_spent_approvals
-- Only an approval is spent, and before it expires.
CREATE TRIGGER spent_approvals BEFORE INSERT ON consumptions
WHEN NOT EXISTS (
    SELECT 1 FROM requests
    WHERE request_id = NEW.request_id AND status = 'approved'
        AND decided_at <= NEW.consumed_at AND NEW.consumed_at < expires_at
)
BEGIN
    SELECT RAISE(ABORT, 'only an approval is spent, before it expires');
END

-- name: create_one_consumption
-- An approval is spent once, and what came of it is told once.
CREATE TRIGGER one_consumption BEFORE UPDATE ON consumptions
WHEN OLD.outcome IS NOT NULL OR NEW.request_id IS NOT OLD.request_id
    OR NEW.idempotency_key IS NOT OLD.idempotency_key OR NEW.consumed_at IS NOT OLD.consumed_at
BEGIN
    SELECT RAISE(ABORT, 'an approval is spent once, and its outcome is told once');
END

-- name: create_kept_consumptions
-- Consumptions are kept as long as their requests.
CREATE TRIGGER kept_consumptions BEFORE DELETE ON consumptions
BEGIN
    SELECT RAISE(ABORT, 'consumptions are kept');
END

-- name: create_whole_requests
-- Requests as they are read, with their consumption.
CREATE VIEW whole_requests AS
SELECT requests.*, consumptions.idempotency_key AS consumption_key, consumed_at, outcome, outcome_note, reported_at
FROM requests LEFT JOIN consumptions USING (request_id)
