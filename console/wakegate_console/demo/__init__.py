"""`wakegate demo`: the whole loop on this machine, with real processes, checked at the end."""
