-- name: remember_creations
-- Instances that were made before have none, and are compared column by column.
ALTER TABLE instances ADD COLUMN created_with BLOB
