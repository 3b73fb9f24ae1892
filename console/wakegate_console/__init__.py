"""The operator's `wakegate` command; the only place that knows all the parties."""
