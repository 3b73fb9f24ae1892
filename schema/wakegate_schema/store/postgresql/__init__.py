"""PostgreSQL: the store of more than one machine. Needs the extra `postgres`."""
