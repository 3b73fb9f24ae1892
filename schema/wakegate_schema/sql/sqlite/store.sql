-- name: snapshot
-- What `PostgresDoorbell` looks at; SQLite's own looks at the file.
SELECT data_version AS snapshot FROM pragma_data_version;
