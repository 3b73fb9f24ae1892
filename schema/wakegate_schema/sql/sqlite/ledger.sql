-- name: migration_ledger
-- As the first version made it; migration 4 adds the column `oldest`.
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;
