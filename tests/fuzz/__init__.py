"""Fuzzing of what reads a stranger's bytes: targets, a kept corpus, and a driver (`make fuzz`)."""
