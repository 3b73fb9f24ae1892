"""What is raised when the soak cannot go on."""


class Stuck(Exception):
    """The stage does not come up, or a command fails on it."""
