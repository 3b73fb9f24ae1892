-- oldest: 4

-- The ledger says the last migration that code must know to work on a store with this one. Code from before works with
-- exactly the migrations it knows, so each of those asks for itself. A row that does not say so shuts everybody out.

ALTER TABLE migration RENAME TO migration_before;

CREATE TABLE migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    oldest INTEGER NOT NULL DEFAULT 9223372036854775807
) STRICT;

INSERT INTO migration (number, name, applied_at, oldest) SELECT number, name, applied_at, number FROM migration_before;

DROP TABLE migration_before;

-- A row here says: this store was copied elsewhere, and goes on there; nothing may work on it any more.

CREATE TABLE moved (id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL, "to" TEXT NOT NULL) STRICT;

-- A row here says: a store is being copied into this one, which nothing may work on before that has ended. `store` is whose
-- content; `bound` that this store is closed already, or about to be, so that no other may be copied here.

CREATE TABLE filling (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL,
    "from" TEXT NOT NULL,
    store TEXT NOT NULL,
    bound INTEGER NOT NULL CHECK (bound IN (0, 1))
) STRICT;
