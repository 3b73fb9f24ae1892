"""`wakegate doctor`: what is wrong with this installation, and what to do."""
