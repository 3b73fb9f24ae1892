"""What a harness finds in its folder: where the provider is, and what its agent is asked to do."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

THREAD = "thread-1"
"""The name of the one run in a folder."""
GOES_ON: Final = "goes_on"
"""A file: the harness's resumer is one that goes on with whatever nobody runs."""
_FILE = Path("desk.json")
_EFFECTS = Path("effects")
_ANSWERS = Path("answers")


@dataclass(frozen=True)
class Desk:
    """A harness's settings."""

    url: str
    """The provider's base URL."""
    token: str
    """The instance's credential."""
    amounts: tuple[int, ...] = (1,)
    """The refunds of the agent's one turn; a call's id is `call-` and its amount."""
    timeout: str = "30m"
    """How long a request may be pending."""

    @classmethod
    def here(cls) -> "Desk":
        """The one of this process's folder."""
        found = json.loads(_FILE.read_text())
        return cls(**found | {"amounts": tuple(found["amounts"])})

    def put(self, folder: Path) -> None:
        """Write it into a folder."""
        (folder / _FILE).write_text(json.dumps(asdict(self)))


def effect(amount: int) -> None:
    """Have the tool's effect."""
    with _EFFECTS.open("a") as file:
        file.write(f"{amount}\n")


def effects(folder: Path) -> list[int]:
    """The amounts of the effects there were, in order."""
    file = folder / _EFFECTS
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def answer() -> None:
    """Note that the model gives its last answer."""
    with _ANSWERS.open("a") as file:
        file.write("answered\n")


def answers(folder: Path) -> int:
    """How often it did: each may have been saved."""
    file = folder / _ANSWERS
    return len(file.read_text().split()) if file.exists() else 0
