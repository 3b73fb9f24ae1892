"""The soak: constant load, random trouble, and a count at the end, all from outside wakegate: docs/reliability.md."""
