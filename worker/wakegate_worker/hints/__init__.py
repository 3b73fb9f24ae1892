"""Hints: how a worker hears that something is due, beside finding it by itself."""
