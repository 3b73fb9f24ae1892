"""Every fault point, broken in real processes."""
