-- name: examine_schema
SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'sqlite_sequence';

-- name: database_size
SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size;
