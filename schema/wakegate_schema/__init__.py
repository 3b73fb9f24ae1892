"""What all parties agree on: wire objects, signing, records and states, the store, and the settings."""
