-- name: migrations_applied
SELECT number FROM migration;

-- name: migration_done
INSERT INTO migration (number, name, applied_at) VALUES (:number, :name, :at);

-- name: migration_oldest
UPDATE migration SET oldest = :oldest WHERE number = :number;

-- name: migrations_needing
-- What was applied that needs a later program than the one that knows migrations up to this one.
SELECT number FROM migration WHERE number > :known AND oldest > :known ORDER BY number;

-- name: store_shut
-- What keeps everybody from writing to the store.
SELECT 'moved' AS what, "to" AS name FROM moved UNION ALL SELECT 'filling', "from" FROM filling;

-- name: moved_to
SELECT "to" FROM moved;

-- name: probe
UPDATE probe SET writes = writes + 1;

-- name: clock_mark_read
SELECT highest_at FROM clock_mark WHERE host = :host;

-- name: clock_mark_raise
INSERT INTO clock_mark (host, highest_at) VALUES (:host, :at)
ON CONFLICT (host) DO UPDATE SET highest_at = {greatest}(clock_mark.highest_at, excluded.highest_at);

-- name: clock_marks
SELECT host, highest_at FROM clock_mark ORDER BY highest_at DESC;

-- name: clock_mark_lower
UPDATE clock_mark SET highest_at = :at WHERE host = :host;

-- name: clock_reset_add
INSERT INTO clock_reset (host, from_at, to_at, actor) VALUES (:host, :from_at, :at, :actor);

-- name: clock_resets
SELECT host, from_at, to_at, actor FROM clock_reset ORDER BY number;

-- name: anomaly_note
-- The same thing again only counts.
INSERT INTO anomaly (kind, provider, instance_id, subject_id, detail, first_at, last_at)
VALUES (:kind, :provider, :instance_id, :subject_id, :detail, :at, :at)
ON CONFLICT (kind, provider, instance_id, subject_id, detail)
DO UPDATE SET count = anomaly.count + 1, last_at = excluded.last_at;

-- name: anomalies
SELECT * FROM anomaly ORDER BY anomaly_id;

-- name: prune_anomalies
DELETE FROM anomaly WHERE anomaly_id IN (
    SELECT anomaly_id FROM anomaly WHERE last_at <= :before ORDER BY last_at LIMIT :limit
);

-- name: prune_notifications
DELETE FROM notification WHERE number IN (
    SELECT number FROM notification WHERE keep_until <= :at ORDER BY keep_until LIMIT :limit
);

-- name: erase_payloads
-- The tombstone stays: key, digest, request id and final state. What is still owed needs the payload: a cancel may
-- have to submit the call again to learn its request id, a wake tells the result.
UPDATE execution
SET arguments = NULL, context = NULL, reasoning = NULL, note = NULL, result = NULL, error = NULL,
    resolution_note = NULL, release_note = NULL, erased_at = :at
WHERE number IN (
    SELECT number FROM execution
    WHERE erased_at IS NULL AND finished_at IS NOT NULL AND finished_at <= :before AND cancel_due_at IS NULL
        AND NOT EXISTS (
            SELECT 1 FROM wake WHERE wake.execution_id = execution.execution_id AND wake.state = 'owed'
        )
        AND NOT EXISTS (
            SELECT 1 FROM wake
            WHERE wake.state = 'owed' AND wake.group_number = (
                SELECT number FROM call_group
                WHERE call_group.provider = execution.provider AND call_group.instance_id = execution.instance_id
                    AND call_group."group" = execution."group"
            )
        )
    ORDER BY finished_at LIMIT :limit
);

-- name: erase_secrets
-- A retired registration answers for eight days; then nothing it signs is known. A superseded one is told apart from junk
-- for as long after its overlap.
UPDATE registration SET sealed_secret = {no_bytes}
WHERE ((state = 'retired' AND retired_at <= :before) OR (state = 'superseded' AND superseded_until <= :before))
    AND sealed_secret <> {no_bytes};
