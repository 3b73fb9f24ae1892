"""What the `wakegate` script calls: imports the command, which takes a moment, and runs it."""

from wakegate_console.interrupts import deadly_interrupts


def main() -> int:
    """Run `wakegate` with this process's arguments and return its exit code."""
    with deadly_interrupts():
        from wakegate_console import cli
    return cli.main()
