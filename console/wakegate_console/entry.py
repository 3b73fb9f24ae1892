"""What the `wakegate` script calls: imports the command, which takes a moment, and runs it."""

from wakegate_console.importing import importing, leaving


def main() -> int:
    """Run `wakegate` with this process's arguments and return its exit code."""
    with importing(whole_process=True):
        from wakegate_console import cli
    code = cli.main()
    leaving()
    return code
