"""Clocks of processes, set apart from this one's while they run."""

from pathlib import Path

from wakegate_schema import clock


class SetApart:
    """The wall clock of the processes that get its `environment`."""

    def __init__(self, folder: Path, name: str = "clock") -> None:
        """Take the folder in which a file says what the clock shows; it is right at first."""
        self._file = folder / f"{name}.txt"
        self.right()

    @property
    def environment(self) -> dict[str, str]:
        """What a process is given to go by this clock."""
        return {clock.TEST_CLOCK: str(self._file)}

    def right(self) -> None:
        """Show what this process's clock shows."""
        self._write("+0")

    def apart(self, offset: int) -> None:
        """Go on, so many µs fast, or slow where they are negative."""
        self._write(f"{offset:+d}")

    def frozen(self, at: int) -> None:
        """Stand still at a time, µs."""
        self._write(f"={at}")

    def _write(self, text: str) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(text, encoding="ascii")
        new.replace(self._file)  # whoever reads it meanwhile reads a whole one
