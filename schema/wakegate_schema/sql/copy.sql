-- What `store/copying/transfer.py` reads of each table: every column, in the order of both databases' schema, by key.

-- name: copy_probe
SELECT * FROM probe ORDER BY id;

-- name: copy_clock_mark
SELECT * FROM clock_mark ORDER BY host;

-- name: copy_clock_reset
SELECT * FROM clock_reset ORDER BY number;

-- name: copy_epoch
SELECT * FROM epoch ORDER BY number;

-- name: copy_registration
SELECT * FROM registration ORDER BY registration_id;

-- name: copy_instance
SELECT * FROM instance ORDER BY provider, instance_id;

-- name: copy_notification
SELECT * FROM notification ORDER BY number;

-- name: copy_anomaly
SELECT * FROM anomaly ORDER BY anomaly_id;

-- name: copy_call_group
SELECT * FROM call_group ORDER BY number;

-- name: copy_execution
SELECT * FROM execution ORDER BY number;

-- name: copy_transition
SELECT * FROM transition ORDER BY execution_id, number;

-- name: copy_resolution
SELECT * FROM resolution ORDER BY number;

-- name: copy_consuming_provider
SELECT * FROM consuming_provider ORDER BY provider;

-- name: copy_adoption
SELECT * FROM adoption ORDER BY number;

-- name: copy_adoption_mark
SELECT * FROM adoption_mark ORDER BY id;

-- name: copy_numbering
SELECT * FROM numbering ORDER BY id;

-- name: copy_arrow
SELECT * FROM arrow ORDER BY from_state, to_state;

-- name: copy_clear_epoch
-- What the migrations have put into a new store gives way to what is copied.
DELETE FROM epoch;

-- name: copy_clear_probe
DELETE FROM probe;

-- name: copy_clear_adoption_mark
DELETE FROM adoption_mark;

-- name: copy_clear_numbering
DELETE FROM numbering;

-- name: ends
-- The highest number of each table that the database numbers.
SELECT 'notification' AS "table", COALESCE(MAX(number), 0) AS last FROM notification
UNION ALL SELECT 'execution', COALESCE(MAX(number), 0) FROM execution
UNION ALL SELECT 'call_group', COALESCE(MAX(number), 0) FROM call_group
UNION ALL SELECT 'resolution', COALESCE(MAX(number), 0) FROM resolution
UNION ALL SELECT 'adoption', COALESCE(MAX(number), 0) FROM adoption
UNION ALL SELECT 'wake', COALESCE(MAX(rowid), 0) FROM wake
UNION ALL SELECT 'anomaly', COALESCE(MAX(anomaly_id), 0) FROM anomaly
UNION ALL SELECT 'clock_reset', COALESCE(MAX(number), 0) FROM clock_reset;

-- name: store_used
-- A row if anything but what the migrations make is in the store.
SELECT 1 AS used
WHERE EXISTS (SELECT 1 FROM registration) OR EXISTS (SELECT 1 FROM instance) OR EXISTS (SELECT 1 FROM notification)
    OR EXISTS (SELECT 1 FROM anomaly) OR EXISTS (SELECT 1 FROM execution) OR EXISTS (SELECT 1 FROM call_group)
    OR EXISTS (SELECT 1 FROM clock_mark) OR EXISTS (SELECT 1 FROM clock_reset)
    OR EXISTS (SELECT 1 FROM epoch WHERE number > 1);

-- name: moved_mark
INSERT INTO moved (id, at, "to") VALUES (1, :at, :to);

-- name: moved_unmark
DELETE FROM moved;

-- name: filling
-- What is being copied into this store, if anything; nobody may open it meanwhile.
SELECT at, "from", store, bound FROM filling;

-- name: filling_begin
INSERT INTO filling (id, at, "from", store, bound) VALUES (1, :at, :from, :store, :bound)
ON CONFLICT (id) DO UPDATE
SET at = excluded.at, "from" = excluded."from", store = excluded.store, bound = excluded.bound;

-- name: filling_unbind
-- From now on no copy of the store that was closed for it can end here.
UPDATE filling SET bound = 0;

-- name: filling_end
DELETE FROM filling;
