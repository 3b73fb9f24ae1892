-- name: consuming_provider
SELECT since FROM consuming_provider WHERE provider = :provider;

-- name: consuming_provider_note
-- Once seen, it stays.
INSERT INTO consuming_provider (provider, since) VALUES (:provider, :at) ON CONFLICT (provider) DO NOTHING;

-- name: consumed_in_vain
-- It was ended without a start while its approval was being consumed.
UPDATE execution SET consumed_at = :consumed_at, report_due_at = :at, report_tries = 0
WHERE execution_id = :execution_id AND consumed_at IS NULL AND started_at IS NULL AND finished_at IS NOT NULL;

-- name: lease_reports
UPDATE execution SET report_due_at = :until
WHERE number IN (
    SELECT number FROM execution
    WHERE report_due_at IS NOT NULL AND report_due_at <= :at ORDER BY report_due_at LIMIT :limit
)
RETURNING *;

-- name: report_settled
UPDATE execution SET report_due_at = NULL WHERE execution_id = :execution_id;

-- name: report_retry
UPDATE execution SET report_due_at = :due_at, report_tries = report_tries + 1
WHERE execution_id = :execution_id AND report_due_at IS NOT NULL;

-- name: instance_reports_due
UPDATE execution SET report_due_at = :at
WHERE {unindexed}provider = :provider AND {unindexed}instance_id = :instance_id AND report_due_at IS NOT NULL;

-- name: instance_forget_reports
-- Without its credential nothing can be reported any more.
UPDATE execution SET report_due_at = NULL
WHERE {unindexed}provider = :provider AND {unindexed}instance_id = :instance_id AND report_due_at IS NOT NULL;
