"""Plays the harness of the public SDK: `play_sdk.py before`, `after` or `moved`.

`before` plays it as it is, woken by the SDK's own `Receiver`. `after` applies `adopt.diff` to a copy and lets wakegate
provision its instance and wake it. `moved` begins as `before`; while a run is paused, the `Receiver` goes, and wakegate
takes its instance over. What `EXAMPLE_FOLDER` does, and the exit code, are as in `play.py`.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from play import EXAMPLES, NOTE, expect, finished, main, say

from stage.bank import Bank
from stage.services import PATIENCE_S, ExampleFailed, Services

HARNESS = EXAMPLES / "sdk_harness"
RESUMER = "langgraph=refund_desk:langgraph_resumer"
ATTEMPTED = "already attempted"
"""Part of what the SDK tells the model of a call whose approval is spent."""


class SlowBank(Bank):
    """A bank that makes one refund and keeps the answer back until it is let go."""

    def __init__(self, ledger: Path, slow: str) -> None:
        """Take its ledger, and the payment that is slow."""
        super().__init__(ledger)
        self._slow = slow
        self.waits = threading.Event()
        self.goes_on = threading.Event()
        self.process = 0
        """Who waits for the answer: the number of a process."""

    def refund(self, key: str, order: dict[str, Any]) -> dict[str, Any]:
        """Make a refund, and wait before the answer to the slow one."""
        made = super().refund(key, order)
        if order["payment_id"] == self._slow:
            self.process = order["process"]
            self.waits.set()
            self.goes_on.wait(PATIENCE_S)
        return made


class SdkPlay:
    """The harness in a folder of its own, which is where it runs and all that it knows."""

    def __init__(self, folder: Path, name: str) -> None:
        """Lay everything out; start nothing."""
        self.name = name
        self.desk = folder / "desk"
        self.desk.mkdir()
        (folder / "policy.toml").write_text("consumption = true\n")
        self.services = Services(
            folder,
            provider_policy_file=str(folder / "policy.toml"),
            resumers=RESUMER,
            resumers_directory=str(self.desk),
        )
        self.bank = SlowBank(folder / "ledger.jsonl", slow="pay-3")
        self._server: subprocess.Popen[bytes] | None = None
        for file in ("refund_desk.py", "provision.py"):
            shutil.copy(HARNESS / file, self.desk)
        desk = {"provider": self.services.provider_url, "bank": self.bank.url, "port": self.services.port}
        (self.desk / "desk.json").write_text(json.dumps(desk))

    def run(self) -> None:
        """Play it. Raises ExampleFailed when something is not as it must be."""
        self.bank.start()
        self.services.start_provider()
        if self.name == "after":
            self._adopt()
            say("wakegate provisions the desk's instance, and saves its credential for the gate")
            self.services.start_wakegate()
            self.services.provision("--save-credential", str(self.desk / "instance.token"))
        else:
            say("the desk's instance is provisioned by the SDK's Receiver, which serves from now on")
            self.services.until("the provider to listen", lambda: _listens(self.services.provider_url))
            finished(self._start("provision.py", str(self.services.provisioner_token)))
            self._serve()
        self._two_refunds()
        if self.name != "moved":
            self._killed()

    def close(self) -> None:
        """End everything that was started."""
        self._stop_server(signal.SIGKILL)
        self.bank.goes_on.set()
        self.services.stop()
        self.bank.close()

    def _two_refunds(self) -> None:
        """One is approved, the other denied."""
        say("the agent proposes two refunds and pauses; its process ends")
        finished(self._start("refund_desk.py", "ask", "desk-1", "refund pay-1 4900 and pay-2 800"))
        if self.name == "moved":
            self._take_over()
        say("a person denies one and approves the other")
        self.services.decide("pay-2", "deny", NOTE)
        self.services.decide("pay-1", "approve", "Go ahead.")
        self.services.until("the bank to be asked", lambda: bool(self._paid()))
        said = self._ended("desk-1")
        expect("the run has ended, and the model was told of the refund", "pay-1: refunded as rf_1" in said, said)
        expect("and of the denial, and why", NOTE in said, said)
        expect("the bank was asked once, for what was approved", self._paid() == ["pay-1"], self._paid())

    def _killed(self) -> None:
        """What was resumed is killed while the bank makes the refund."""
        say("a third refund is approved; what resumed the run is killed while the bank makes it")
        finished(self._start("refund_desk.py", "ask", "desk-2", "refund pay-3 1500"))
        self.services.decide("pay-3", "approve", "Go ahead.")
        self.services.until("the bank to be asked", self.bank.waits.is_set)
        os.kill(self.bank.process, signal.SIGKILL)
        self.bank.goes_on.set()
        if self.name == "before":
            self._lost()
        else:
            said = self._ended("desk-2")
            expect("wakegate woke the run again; it has ended, and the model was told", ATTEMPTED in said, said)
        expect("the bank was asked once for it", self._paid() == ["pay-1", "pay-3"], self._paid())

    def _lost(self) -> None:
        """The wake was in the Receiver's memory."""
        self._stop_server(signal.SIGKILL)
        self._serve()
        self.services.until("the provider to have delivered everything", self._delivered)
        state = self._state("desk-2")
        expect("nobody wakes the run: it waits, though the Receiver serves again", bool(state["next"]), state)

    def _delivered(self) -> bool:
        requests = self.services.listing("provider", "requests")
        return all(each["deliveries_made"] >= each["deliveries_wanted"] for each in requests)

    def _take_over(self) -> None:
        """While the run is paused, the Receiver goes and wakegate comes."""
        say("the Receiver goes; wakegate takes over its instance, and listens where it listened")
        self._stop_server(signal.SIGTERM)
        self._adopt()
        kept = json.loads((self.desk / "receiver.json").read_text())
        secret = self.desk / "webhook.secret"
        secret.touch(0o600)
        secret.write_text(kept["secret"])
        self.services.wakegate(
            "instance", "import", "--provider-url", self.services.provider_url, "--name", "refund-desk",
            "--registration-id", kept["registration_id"], "--secret-file", str(secret),
            "--instance-id", kept["instance_id"], "--credential-file", str(self.desk / "instance.token"),
        )  # fmt: skip
        self.services.start_wakegate()

    def _adopt(self) -> None:
        """Change the copy of the harness as docs/adopting-from-the-sdk.md says."""
        say("the ten-line change: adopt.diff")
        change = ["git", "apply", str(HARNESS / "adopt.diff")]
        ceiling = os.environ | {"GIT_CEILING_DIRECTORIES": str(self.desk.parent)}  # no repository around it
        try:
            subprocess.run(change, cwd=self.desk, env=ceiling, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ExampleFailed(f"adopt.diff could not be applied: {error}") from None
        (self.desk / "provision.py").unlink()

    def _ended(self, thread: str) -> str:
        """Wait until a run has ended and return what was said last."""
        said: list[str] = []

        def ended() -> bool:
            state = self._state(thread)
            said[:] = [state["said"]]
            return not state["next"]

        self.services.until(f"the run {thread} to end", ended)
        return said[0]

    def _state(self, thread: str) -> dict[str, Any]:
        shown = self._start("refund_desk.py", "show", thread, stdout=subprocess.PIPE)
        written, _ = shown.communicate(timeout=PATIENCE_S)
        finished(shown)
        found: dict[str, Any] = json.loads(written)
        return found

    def _paid(self) -> list[str]:
        """Return what the bank was asked to refund, in order."""
        return [each["order"]["payment_id"] for each in self.bank.ledger()]

    def _serve(self) -> None:
        """Start the harness's server and wait until it listens."""
        self._server = self._start("refund_desk.py", "serve")
        self.services.until("the Receiver to listen", lambda: _listens(f"http://127.0.0.1:{self.services.port}"))

    def _stop_server(self, how: signal.Signals) -> None:
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(PATIENCE_S)
            self._server = None

    def _start(self, program: str, *arguments: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        """Start a process of the harness, in the folder that it works in."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WAKEGATE_")}
        command = [sys.executable, program, *arguments]
        return subprocess.Popen(command, cwd=self.desk, env=environment, stdout=stdout)


def _listens(url: str) -> bool:
    found = re.fullmatch(r"http://([\d.]+):(\d+)", url)
    if found is None:
        raise ExampleFailed(f"not an address on this machine: {url}")
    with socket.socket() as probe:
        return probe.connect_ex((found[1], int(found[2]))) == 0


if __name__ == "__main__":
    main(lambda folder: SdkPlay(folder, sys.argv[1]))
