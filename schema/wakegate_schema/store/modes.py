"""What a store is opened for."""

from typing import Literal

Mode = Literal["service", "use", "read"]
"""`service` makes and migrates SQLite's file; `use` and `read` only take a store that is there and up to date."""
