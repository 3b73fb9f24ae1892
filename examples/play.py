"""Plays one example from beginning to end: `play.py python`, `play.py shell` or `play.py node`.

It sets the stage (an approval provider, a receiver, a worker, a bank, and a wire that loses answers), starts the
harness's processes, decides as a person would, and counts what happened in the bank's ledger. Exit code 0 only if
everything held.
`EXAMPLE_FOLDER` names a new or empty folder that is kept; else a temporary one is removed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from stage.bank import Bank
from stage.lossy import LossySocket
from stage.services import INSTANCE, PATIENCE_S, ExampleFailed, Services

EXAMPLES = Path(__file__).resolve().parent
SHELL_NEEDS = ("awk", "cat", "curl", "date", "dirname", "expr", "grep", "mkfifo", "od", "rm", "sh", "sleep", "tr", "wc")
PAID, DENIED = "run-7:refund-1", "run-7:refund-2"
REFUSED = "not run by this process"
"""What a harness tells the agent when its claim was refused."""
NOTE = "The parcel was signed for on Monday."


class Playable(Protocol):
    """What can be played."""

    def run(self) -> None:
        """Play it. Raises ExampleFailed when something is not as it must be."""

    def close(self) -> None:
        """End everything that was started."""


def play(example: Callable[[Path], Playable]) -> None:
    """Play an example in a folder. Raises ExampleFailed."""
    kept = os.environ.get("EXAMPLE_FOLDER")
    folder = Path(kept or tempfile.mkdtemp(prefix="wg-", dir="/tmp")).resolve()  # the path of a socket is short
    folder.mkdir(exist_ok=True)
    made = example(folder)
    try:
        made.run()
    except ExampleFailed as error:
        raise ExampleFailed(f"{error}\nlook around in {folder}") from error
    finally:
        made.close()
    if not kept:
        shutil.rmtree(folder)


class Play:
    """One example on its stage."""

    def __init__(self, folder: Path, name: str) -> None:
        """Lay everything out in the folder; start nothing but the bank."""
        self.name = name
        self.services = Services(folder)
        self.bank = Bank(folder / "ledger.jsonl")
        self.state = folder / "harness"
        self.state.mkdir()
        self.wire = folder / "wire.sock"
        self.token = folder / "harness.token"
        self._lossy: LossySocket | None = None
        self._harnesses: list[subprocess.Popen[bytes]] = []
        self._environment = self._bare_environment(folder / "bin")

    def run(self) -> None:
        """Play it. Raises ExampleFailed when something is not as it must be."""
        say("a provider, a receiver and a worker start; an operator adds the harness")
        self.bank.start()
        if self.name == "python":
            places = {"control": str(self.wire), "bank": self.bank.url}
            (self.state / "places.json").write_text(json.dumps(places))
            self.services.add_wake("refund-desk", self._command("wake"))
        self.services.start()
        proof = ("--token-file", str(self.token)) if self.name == "node" else ("--uid", str(os.getuid()))
        self.services.wakegate("harness", "add", self.name, "--instance", INSTANCE, *proof)
        self._lossy = LossySocket(self.wire, self.services.control)
        self._lossy.start()

        say("the agent proposes two refunds; its harness saves them and ends")
        finished(self._start("propose"))
        say("a person approves one and denies the other, while no harness runs")
        self.services.decide("pay-1", "approve", "Go ahead.")
        self.services.decide("pay-2", "deny", NOTE)
        say("new processes of the harness: two by mistake, of which one may run the refund")
        self._resume()
        self._check()

    def close(self) -> None:
        """End everything that was started."""
        for process in self._harnesses:
            process.kill()
            process.wait()
        if self._lossy is not None:
            self._lossy.close()
        self.services.stop()
        self.bank.close()

    def _resume(self) -> None:
        if self.name == "python":  # wakegate itself starts them
            self.services.until("the harness to be woken", lambda: {PAID, DENIED} <= self._told().keys())
            self._wake_again()
            return
        both = [self._start("resume"), self._start("resume")]
        for process in both:
            finished(process)

    def _wake_again(self) -> None:
        """Deliver the wake of the permitted call a second time, as may happen at any time."""
        wakes = self.services.listing("wake", "list")
        [permitted] = [each["wake_id"] for each in wakes if each["to"] == "permitted"]
        self.services.wakegate("wake", "replay", permitted)
        self.services.until("the second wake", lambda: any(REFUSED in line for line in self._told()[PAID]))

    def _check(self) -> None:
        """Compare what happened with what must have happened."""
        states = self.services.states()
        expect(f"{PAID} succeeded, {DENIED} was denied", states == {PAID: "succeeded", DENIED: "denied"}, states)
        ledger = self.bank.ledger()
        paid = [(each["order"]["payment_id"], each["order"]["amount"]) for each in ledger]
        expect("the bank was asked once, for what was approved", paid == [("pay-1", 4900)], ledger)
        told = self._told()
        expect(
            "the agent was told of the refund", any("succeeded" in line and "rf_1" in line for line in told[PAID]), told
        )
        expect("the agent was told of the denial, and why", all(NOTE in line for line in told[DENIED]), told)
        refused = [line for line in told[PAID] if REFUSED in line]
        expect("a second claim was refused, and its process told why", len(refused) == 1, told)
        lost = self._lossy.lost if self._lossy else set()
        wanted = {"suspend", "claim", "finish"} | ({"stream"} if self.name != "python" else set())
        expect(f"lost answers changed nothing: {', '.join(sorted(wanted))}", lost == wanted, lost)

    def _told(self) -> dict[str, list[str]]:
        """Return what the agent was told, by the call's key."""
        told: dict[str, list[str]] = {}
        file = self.state / "agent.txt"
        for line in file.read_text().splitlines() if file.exists() else []:
            key, _, rest = line.partition(": ")
            told.setdefault(key, []).append(rest)
        return told

    def _start(self, life: str) -> subprocess.Popen[bytes]:
        """Start one process of the harness, which knows nothing of wakegate but its socket."""
        self._harnesses.append(subprocess.Popen(self._command(life), env=self._environment, cwd=self.state))
        return self._harnesses[-1]

    def _command(self, life: str) -> list[str]:
        folder = EXAMPLES / self.name
        return {
            "python": [sys.executable, str(folder / "harness.py"), life, str(self.state)],
            "shell": ["sh", str(folder / "harness.sh"), life],
            "node": ["node", str(folder / "harness.mjs"), life],
        }[self.name]

    def _bare_environment(self, programs: Path) -> dict[str, str]:
        """Return an environment in which the programs that the harness needs can be found, and no other."""
        programs.mkdir()
        for name in {"python": (), "shell": SHELL_NEEDS, "node": ("node",)}[self.name]:
            found = shutil.which(name)
            if found is None:
                raise ExampleFailed(f"this example needs {name}, which is not installed")
            (programs / name).symlink_to(found)
        return {
            "PATH": str(programs),
            "CONTROL": str(self.wire),
            "TOKEN_FILE": str(self.token),
            "BANK": self.bank.url,
            "STATE": str(self.state),
        }


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process. Raises ExampleFailed unless it was a good one."""
    try:
        code = process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise ExampleFailed("the harness did not come to an end") from None
    if code != 0:
        raise ExampleFailed(f"the harness ended with exit code {code}")


def say(step: str) -> None:
    """Tell the reader what happens."""
    print(f"… {step}", flush=True)


def expect(what: str, holds: bool, found: object) -> None:
    """Say that something held. Raises ExampleFailed if it did not."""
    if not holds:
        raise ExampleFailed(f"it did not hold that {what}: {found}")
    print(f"✓ {what}", flush=True)


def main(example: Callable[[Path], Playable]) -> None:
    """Play an example; exit code 0 only if everything held."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends what was started, too
    try:
        play(example)
    except ExampleFailed as error:
        sys.exit(f"example failed: {error}")


if __name__ == "__main__":
    main(lambda folder: Play(folder, sys.argv[1]))
