"""`make fuzz`: fuzz every target for a while, then keep what took a new step in the code.

With atheris where it is installed (`pip install '.[fuzz]'`), else with the mutations that CI runs.
"""

import argparse
import importlib.util
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from fuzz.corpus import FOLDER, keep, kept, new_ones
from fuzz.mutation import mutations
from fuzz.targets import TARGETS, bounded

LONGEST_INPUT: Final = 4_096
_NOISE: Final = ("INFO:", "WARNING:")


def main() -> int:
    """Fuzz and report; 1 when something was found."""
    options = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    options.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all of them unless given"
    )
    options.add_argument("--seconds", type=int, default=60, help="for each target")
    options.add_argument("--seed", type=int, default=int(time.time()))
    chosen = options.parse_args()
    if unknown := set(chosen.targets) - TARGETS.keys():
        options.error(f"no target is called {', '.join(sorted(unknown))}")
    guided = importlib.util.find_spec("atheris") is not None
    print(f"seed {chosen.seed}, {chosen.seconds} s each, with {'atheris' if guided else 'mutations only'}")
    run = with_atheris if guided else with_mutations
    failed = [name for name in chosen.targets or TARGETS if not run(name, chosen.seconds, chosen.seed)]
    print(f"found something in: {', '.join(failed)}" if failed else "nothing found")
    return 1 if failed else 0


def with_atheris(name: str, seconds: int, seed: int) -> bool:
    """Run libFuzzer in a process of its own; whatever it finds ends that process."""
    with tempfile.TemporaryDirectory(prefix="wakegate-fuzz-") as folder:
        words = [
            *(sys.executable, "-m", "fuzz.instrumented", name, folder, str(FOLDER / name)),
            *(f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST_INPUT}", "-timeout=10"),
            *("-rss_limit_mb=1024", f"-artifact_prefix=fuzz-{name}-", "-print_final_stats=1", "-verbosity=0"),
        ]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        found = [path.read_bytes() for path in Path(folder).iterdir()]
        Path(folder).with_suffix(".dict").unlink(missing_ok=True)
    said = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if not line.startswith(_NOISE)]
    print(*(said if done.returncode else [line for line in said if line.startswith("stat::")]), sep="\n")
    _keep(name, found)
    return done.returncode == 0


def with_mutations(name: str, seconds: int, seed: int) -> bool:
    """Mutate the corpus in this process; what is found is saved in the working directory."""
    target = bounded(TARGETS[name])
    end = time.monotonic() + seconds
    entries = list(kept(name).values())
    for number in itertools.count(seed):
        for data in mutations(entries, 1000, number, LONGEST_INPUT):
            try:
                target(data)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
                path = Path(f"fuzz-{name}-{number}")
                path.write_bytes(data)
                print(f"{name}: {type(error).__name__}: {error}; see {path}")
                return False
        if time.monotonic() > end:
            print(f"{name}: {(number - seed + 1) * 1000} inputs")
            break
    return True


def _keep(name: str, found: list[bytes]) -> None:
    chosen = new_ones(TARGETS[name], kept(name).values(), found)
    for data in chosen:
        keep(name, data)
    print(f"{name}: {len(found)} inputs with new coverage, of which {len(chosen)} kept")


if __name__ == "__main__":
    sys.exit(main())
