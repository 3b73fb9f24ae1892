-- name: migration_ledger
-- The table of what was applied. `oldest` is the last migration that code must know to work on a store with this one; a
-- row that does not say so shuts out everybody who does not know it.
CREATE TABLE IF NOT EXISTS migration (
    number BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    applied_at BIGINT NOT NULL,
    oldest BIGINT NOT NULL DEFAULT 9223372036854775807
);
