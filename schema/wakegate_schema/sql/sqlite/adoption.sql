-- name: lease_adoptions
-- What is due, of frameworks that this worker can resume, or of one that is not known yet; not while its thread's run is
-- kept. A run that nobody has kept has ended with its worker.
UPDATE adoption
SET lease_number = lease_number + 1, due_at = :until, run_until = NULL,
    last_end = CASE WHEN run_until IS NULL THEN last_end ELSE 'badly' END
WHERE number IN (
    SELECT number FROM adoption
    WHERE due_at IS NOT NULL AND due_at <= :at
        AND (framework IS NULL OR framework IN (SELECT value FROM json_each(:frameworks)))
        AND NOT EXISTS (
            SELECT 1 FROM adoption AS other
            WHERE other.framework = adoption.framework AND other.thread = adoption.thread AND other.run_until > :at
        )
    ORDER BY due_at LIMIT :limit
)
RETURNING *;
