"""Installing: what `wakegate init` makes, a step at a time, and never over what is there."""
