-- name: snapshot
SELECT pg_current_snapshot()::text AS snapshot;
