"""Copying: what is in one store, written into another database as a whole: copies, and restores and backups across."""
