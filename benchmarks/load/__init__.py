"""The load: notifications made beforehand, and the process that sends each of them once."""
