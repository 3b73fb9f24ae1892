-- name: demo_make
CREATE SCHEMA {schema};

-- name: demo_where
-- The schema that the demo's connections work in.
SELECT current_schema() AS name;

-- name: demo_remove
DROP SCHEMA {schema} CASCADE;
