-- name: examine_schema
-- Everything that guards or answers in the current schema, with its name left out, so that two schemas compare: also
-- what is disabled, not logged, not valid, or hides rows. What an extension brings is its own.
WITH own AS (
    SELECT pg_class.oid, relname, relkind, relpersistence, relrowsecurity, relnamespace,
        ' ON ' || quote_ident(nspname) || '.' AS qualified
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = current_schema() AND relkind IN ('r', 'p', 'v', 'm', 'f')
        AND NOT EXISTS (
            SELECT 1 FROM pg_depend
            WHERE classid = CAST('pg_class' AS regclass) AND objid = pg_class.oid AND deptype = 'e')
)
SELECT 'table ' || relname AS name,
    CAST(relkind AS TEXT) || ' ' || CAST(relpersistence AS TEXT) || ' ' || CAST(relrowsecurity AS TEXT) AS sql
FROM own
UNION ALL
SELECT 'column ' || relname || '.' || attname,
    format_type(atttypid, atttypmod) || ' ' || COALESCE(collname, '') || ' ' || CAST(attnotnull AS TEXT) || ' '
        || CAST(attidentity AS TEXT) || ' ' || COALESCE(pg_get_expr(adbin, adrelid), '')
FROM own JOIN pg_attribute ON attrelid = own.oid
    LEFT JOIN pg_collation ON pg_collation.oid = attcollation
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'constraint ' || conname, relname || ' ' || pg_get_constraintdef(pg_constraint.oid)
FROM own JOIN pg_constraint ON conrelid = own.oid
WHERE contype IN ('c', 'f', 'p', 'u', 'x')
UNION ALL
SELECT 'index ' || pg_class.relname,
    CAST(indisvalid AS TEXT) || ' ' || replace(pg_get_indexdef(indexrelid), qualified, ' ON ')
FROM own JOIN pg_index ON indrelid = own.oid JOIN pg_class ON pg_class.oid = indexrelid
UNION ALL
SELECT 'trigger ' || tgname,
    CAST(tgenabled AS TEXT) || ' ' || replace(pg_get_triggerdef(pg_trigger.oid), qualified, ' ON ')
FROM own JOIN pg_trigger ON tgrelid = own.oid
WHERE NOT tgisinternal
UNION ALL
SELECT 'rule ' || rulename, relname || ' ' || CAST(ev_enabled AS TEXT)
FROM own JOIN pg_rewrite ON ev_class = own.oid
UNION ALL
SELECT 'function ' || proname,
    lanname || ' ' || CAST(prosecdef AS TEXT) || ' ' || CASE
        WHEN proconfig = ARRAY['search_path=' || quote_ident(nspname) || ', pg_temp'] THEN 'its own schema'
        ELSE COALESCE(CAST(proconfig AS TEXT), 'any schema')
    END || ' ' || prosrc
FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace JOIN pg_language ON pg_language.oid = prolang
WHERE nspname = current_schema()
    AND NOT EXISTS (
        SELECT 1 FROM pg_depend
        WHERE classid = CAST('pg_proc' AS regclass) AND objid = pg_proc.oid AND deptype = 'e');

-- name: database_size
SELECT pg_database_size(current_database()) AS bytes;
