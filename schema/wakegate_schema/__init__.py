"""wakegate."""
