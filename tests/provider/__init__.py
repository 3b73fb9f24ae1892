"""Consumption at the small provider, and the public SDK's own gates in front of it."""
