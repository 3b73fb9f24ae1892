-- name: consume
-- The one guarded spending of an approval; no row inserted means that it is spent, is over, or never was one.
INSERT INTO consumptions (request_id, idempotency_key, consumed_at)
SELECT request_id, :idempotency_key, max(:now, decided_at)
FROM requests JOIN instances USING (instance_id)
WHERE request_id = :request_id AND instance_id = :instance_id AND deleted_at IS NULL
    AND status = 'approved' AND expires_at > :now
ON CONFLICT (request_id) DO NOTHING

-- name: report
-- The one guarded report of what came of it; no row changed means that there is one, or nothing to report of.
UPDATE consumptions SET outcome = :outcome, outcome_note = :outcome_note, reported_at = max(:now, consumed_at)
WHERE outcome IS NULL
    AND request_id = (
        SELECT request_id FROM requests JOIN instances USING (instance_id)
        WHERE request_id = :request_id AND instance_id = :instance_id AND deleted_at IS NULL
    )
