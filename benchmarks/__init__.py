"""Measurements, never tests: what they say depends on the machine (docs/scale.md)."""
