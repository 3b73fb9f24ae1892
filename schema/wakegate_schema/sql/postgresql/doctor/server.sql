-- name: server
-- What the server says of itself, and of this connection to it. Any role may ask.
SELECT current_setting('server_version') AS version,
    CAST(current_setting('server_version_num') AS INTEGER) AS number,
    pg_is_in_recovery() AS standby,
    current_setting('fsync') = 'on' AS fsync,
    current_setting('full_page_writes') = 'on' AS full_page_writes,
    current_setting('synchronous_standby_names') AS synchronous,
    current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
    CAST(current_setting('max_connections') AS INTEGER)
        - CAST(current_setting('superuser_reserved_connections') AS INTEGER) AS most,
    CAST((SELECT SUM(numbackends) FROM pg_stat_database) AS INTEGER) AS connections,
    pg_database_size(current_database()) AS bytes,
    CAST(current_user AS TEXT) AS role,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_standbys,
    pg_backend_pid() AS pid,
    to_regclass('migration') IS NOT NULL AS has_store;

-- name: server_time
-- The server's clock, in µs since the Unix epoch.
SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS now;

-- name: standbys
-- Who streams from this server. State and role are NULL for a login that may not see them.
SELECT application_name AS name, state, sync_state AS role, CAST(EXTRACT(EPOCH FROM replay_lag) AS DOUBLE PRECISION) AS lag
FROM pg_stat_replication ORDER BY application_name, pid;

-- name: rights
-- What this role may do with the tables of the current schema.
SELECT relname AS name,
    has_table_privilege(pg_class.oid, 'SELECT') AS "SELECT",
    has_table_privilege(pg_class.oid, 'INSERT') AS "INSERT",
    has_table_privilege(pg_class.oid, 'UPDATE') AS "UPDATE",
    has_table_privilege(pg_class.oid, 'DELETE') AS "DELETE"
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND relkind IN ('r', 'p');

-- name: empty_commit
-- A word in the server's log and in no table, so that the commit that follows has something to wait for.
SELECT pg_logical_emit_message(true, 'wakegate doctor', '');
