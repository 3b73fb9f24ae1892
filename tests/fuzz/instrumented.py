"""One target under atheris: `python -m fuzz.instrumented TARGET [libFuzzer's options and folders]`."""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["wakegate_schema", "wakegate_receiver", "fuzz.targets"]):
    from fuzz.targets import TARGETS, bounded

from fuzz.mutation import TOKENS


def main() -> None:
    """Fuzz until libFuzzer has had enough, which ends the process."""
    name, folder, *options = sys.argv[1:]
    words = Path(folder).with_suffix(".dict")
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in TOKENS if len(token) < 64))
    atheris.Setup([sys.argv[0], f"-dict={words}", folder, *options], bounded(TARGETS[name]))
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    main()
