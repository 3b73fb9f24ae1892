"""SQLite: the store on one machine."""
