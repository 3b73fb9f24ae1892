"""What the processes of a test begin with."""

import os


def clean_environment() -> dict[str, str]:
    """This process's environment without any setting of wakegate."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WAKEGATE_")}
