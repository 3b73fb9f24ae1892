-- name: copy_wake
SELECT * FROM wake ORDER BY rowid;

-- name: copy_into_probe
COPY probe FROM STDIN;

-- name: copy_into_clock_mark
COPY clock_mark FROM STDIN;

-- name: copy_into_clock_reset
COPY clock_reset FROM STDIN;

-- name: copy_into_epoch
COPY epoch FROM STDIN;

-- name: copy_into_registration
COPY registration FROM STDIN;

-- name: copy_into_instance
COPY instance FROM STDIN;

-- name: copy_into_notification
COPY notification FROM STDIN;

-- name: copy_into_anomaly
COPY anomaly FROM STDIN;

-- name: copy_into_call_group
COPY call_group FROM STDIN;

-- name: copy_into_execution
COPY execution FROM STDIN;

-- name: copy_into_transition
COPY transition FROM STDIN;

-- name: copy_into_resolution
COPY resolution FROM STDIN;

-- name: copy_into_consuming_provider
COPY consuming_provider FROM STDIN;

-- name: copy_into_adoption
COPY adoption FROM STDIN;

-- name: copy_into_adoption_mark
COPY adoption_mark FROM STDIN;

-- name: copy_into_numbering
COPY numbering FROM STDIN;

-- name: copy_into_wake
COPY wake FROM STDIN;

-- name: guards
-- The triggers, which keep the store's rules: how each is taken away while rows of a store that kept them are copied, and
-- how it is made again. Those that hold foreign keys stay.
SELECT 'ALTER TABLE ' || CAST(tgrelid AS regclass) || ' DISABLE TRIGGER ' || quote_ident(tgname) AS lifted,
    'ALTER TABLE ' || CAST(tgrelid AS regclass) || ' ENABLE TRIGGER ' || quote_ident(tgname) AS set_again
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND NOT tgisinternal AND tgenabled = 'O'
ORDER BY relname, tgname;

-- name: counters
-- The last number that was given in each table that the database numbers.
SELECT CAST(relname AS TEXT) AS "table",
    COALESCE(pg_sequence_last_value(CAST(pg_get_serial_sequence(quote_ident(relname), attname) AS regclass)), 0) AS last
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND attidentity <> '' AND NOT attisdropped
ORDER BY relname;

-- name: counter_forget
-- A sequence is set as it is.
SELECT 1;

-- name: counter_set
SELECT setval(CAST(pg_get_serial_sequence(quote_ident(relname), attname) AS regclass), CAST(:last AS BIGINT))
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND relname = :table AND attidentity <> '' AND NOT attisdropped
    AND CAST(:last AS BIGINT) > 0;

-- name: copied_statistics
-- Else the planner takes every table for an empty one, until autovacuum comes by.
ANALYZE notification, execution, transition, wake, resolution, registration, instance, anomaly, call_group, adoption;
