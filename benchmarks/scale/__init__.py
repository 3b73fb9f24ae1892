"""What more than one machine costs: the figures of docs/scale.md."""
