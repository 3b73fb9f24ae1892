"""The control API: what harnesses in every language may ask of the receiver."""
