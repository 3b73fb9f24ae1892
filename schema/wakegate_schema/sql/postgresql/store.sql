-- name: snapshot
SELECT pg_current_snapshot()::text AS snapshot;

-- name: store_unfit
-- What keeps a login from working on the store that it finds: a database that cannot hold every text; tables in another
-- schema than the one in which the login would make its own; tables some of whose rows it would not be shown.
SELECT what, name FROM (
    SELECT 1 AS rank, 'encoding' AS what, CAST(getdatabaseencoding() AS TEXT) AS name
    WHERE getdatabaseencoding() <> 'UTF8'
    UNION ALL
    SELECT 2, 'schema', CAST(nspname AS TEXT) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE pg_class.oid = to_regclass('migration') AND nspname IS DISTINCT FROM current_schema()
    UNION ALL
    SELECT 3, 'rows', CAST(relname AS TEXT) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = current_schema() AND relkind IN ('r', 'p') AND relrowsecurity AND row_security_active(pg_class.oid)
) AS found
ORDER BY rank LIMIT 1;
