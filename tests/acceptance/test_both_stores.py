"""Every command of the command line, on a filled store in SQLite and on one in PostgreSQL: both say the same."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from os import chdir
from pathlib import Path
from typing import Final

import click

from support.console import Console, Ran
from support.desk import Desk, new_id
from wakegate_console.cli import wakegate
from wakegate_schema import clock
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import open_store

SERVICES: Final = {"receiver", "worker", "provider", "provider run", "up", "demo"}
"""What runs until it is told to stop, and has tests with real processes: see test_services_on_postgresql.py."""

PLAN: Final = (
    "db migrate",
    "instance list --json",
    "instance list",
    "instance show refund-desk --json",
    "instance credential refund-desk --credential-file credential",
    "instance provision --provider-url http://127.0.0.1:9 --provisioner-token-file token --url https://w.example/aap/events"
    " --name other --wait 0",
    "instance rotate refund-desk --provisioner-token-file token --url https://w.example/aap/events --wait 0",
    "instance delete refund-desk --provisioner-token-file token",
    "instance import --provider-url http://127.0.0.1:9 --name third --instance-id c0ffee00-0000-4000-8000-000000000001"
    " --credential-file credential",
    "instance retire third",
    "harness add mine --uid 61009 --instance refund-desk",
    "harness list --json",
    "harness remove mine",
    "pool list --json",
    "pool list",
    "execution list --json",
    "execution list",
    "execution list --state in_doubt --json --fail-if-in-doubt",
    "execution show saved --json",
    "execution show saved --payload",
    "execution show nothing-there",
    "execution resolve {doubtful} --happened --by Mira --note asked-the-bank",
    "execution abandon saved --reason over",
    "wake list --json",
    "wake list",
    "wake show {wake} --json",
    "wake show {wake} --message",
    "wake groups --json",
    "wake replay --undelivered",
    "notification list --json",
    "notification show {event} --json",
    "notification show {event} --payload",
    "refusal list --json",
    "verify --body body --headers headers --json",
    "clock show --json",
    "clock reset --by Mira",
    "db check --json",
    "db check",
    "db prune",
    "db query SELECT~state,~COUNT(*)~AS~n~FROM~execution~GROUP~BY~state~ORDER~BY~state --json",
    "db query DELETE~FROM~execution",
    "db reseal --keep-old",
    "doctor --json --offline",
    "provider requests --json",
    "provider show {event}",
    "provider decide {event} approve",
    "provider redeliver {event}",
    "db promoted --by Mira --yes",
    "execution release waiting --by Mira --note looked --yes",
    "init made --json",
    "db backup kept.db",
    "db restore kept.db",
    "db copy {store} sqlite:///copied.db --json",
)
"""One command a line; `~` stands for a blank inside an argument. A later one sees what earlier ones did."""

DIFFERENT: Final = {"db check", "db copy", "db reseal", "db restore", "doctor"}
"""Commands that say what is one database's own; what both have in common is asserted by itself."""
REFUSED: Final = "db query DELETE~FROM~execution"
"""Each database says in its own words what is wrong with it."""


def leaves(command: click.Command = wakegate, name: str = "") -> Iterator[str]:
    """The full names of all commands that do something."""
    if not isinstance(command, click.Group) or (command.invoke_without_command and name):
        yield name
    if isinstance(command, click.Group):
        for sub in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), sub)
            assert found is not None
            yield from leaves(found, f"{name} {sub}".strip())


NAMES: Final = sorted(leaves(), key=len, reverse=True)


def leaf(line: str) -> str:
    """The command of a line of the plan."""
    return next(name for name in NAMES if f"{line} ".startswith(f"{name} "))


def test_the_plan_has_every_command_there_is() -> None:
    assert {leaf(line) for line in PLAN} | SERVICES == set(NAMES)


@dataclass
class SealedDesk(Desk):
    """A desk whose secrets are sealed by the keys in a folder."""

    folder: Path = field(default_factory=Path)

    def registration(self) -> Registration:
        """As `Desk`'s, with a secret that the receiver's key opens."""
        sealed = seal_signing_secret(
            ensure_key(self.folder / "receiver.key"), provider=self.provider, registration_id=self.registration_id,
            secret=SigningSecret.generate(),
        )  # fmt: skip
        return replace(super().registration(), sealed_secret=sealed)

    def instance(self) -> Instance:
        """As `Desk`'s, with a credential that the worker's key opens."""
        sealed = seal_credential(
            ensure_key(self.folder / "worker.key"), provider=self.provider, instance_id=self.instance_id,
            token="planted-token-4411",
        )  # fmt: skip
        return replace(super().instance(), sealed_credential=sealed)


async def fill(url: str, folder: Path) -> dict[str, str]:
    """Put something of each kind on record; return what the plan's names in braces stand for."""
    async with await open_store(url, mode="service") as store:
        desk = await SealedDesk(store, folder=folder).open()
        doubtful = await desk.in_doubt()
        waiting = await desk.waiting(idempotency_key="waiting", arguments='{"amount": 49.0, "who": "Bär"}'.encode())
        await store.release(waiting.lease, clock.now(), "tool_unknown", clock.now())
        await desk.save(idempotency_key="saved", reasoning=None, context=b'{"a": [true, null]}')
        grouped = await desk.save(wake="mine", group="turn-7", idempotency_key="grouped")
        lost = await desk.save(wake="mine", idempotency_key="lost")
        for each in (lost, grouped):
            await store.abandon(each.execution_id, "over", "harness", clock.now())
        (wake,) = await store.wakes(lost.execution_id)
        await store.wake_failed(wake.wake_id, None, "exit_9")
        arrival = desk.arrival(new_id(), body=b'{"type": "x"}')
        await store.record(arrival)
        await store.record(replace(arrival, request_id=new_id()))
        return {"wake": wake.wake_id, "event": arrival.event_id, "doubtful": doubtful.execution_id, "store": url}


class Said:
    """What commands said on one store, without what no two runs have in common."""

    def __init__(self, console: Console, folder: Path, url: str) -> None:
        """Fill the store and run the plan in a folder of its own."""
        self.ran: dict[str, Ran] = {}
        self._ids: dict[str, str] = {}
        self._own = (str(folder), url, url.removeprefix("sqlite:///"))
        names = asyncio.run(fill(url, folder))
        for line in PLAN:
            words = [word.replace("~", " ").format(**names) for word in line.split()]
            self.ran[line] = console(*words)

    def plain(self, line: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a line of the plan."""
        ran = self.ran[line]
        return ran.code, self._plain(ran.out), self._plain(ran.err)

    def _plain(self, text: str) -> str:
        for own in sorted(self._own, key=len, reverse=True):
            text = text.replace(own, "…")
        text = re.sub(UUID, lambda found: self._ids.setdefault(found[0], f"id-{len(self._ids)}"), text)
        text = re.sub(r"\b[0-9a-f]{64}\b", "digest", text)
        text = re.sub(r"\b[0-9a-f]{8,12}\b", "short", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?", "time", text)
        return re.sub(r" {2,}|─+", "  ", text)


UUID: Final = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def prepared(console: Console, folder: Path, url: str) -> Said:
    """Run the plan on one store."""
    folder.mkdir()
    console.directory = folder
    chdir(folder)
    console.set("WAKEGATE_DATABASE", url)
    console.secret_file("credential", "planted-credential-77aa")
    console.secret_file("token", "planted-provisioner-99bb")
    (folder / "body").write_text("{}")
    (folder / "headers").write_text("Content-Type: application/json\n")
    (folder / "wakegate.toml").write_text('[wake.mine]\nkind = "command"\nargv = ["/bin/true"]\n')
    return Said(console, folder, url)


def test_every_command_says_the_same_on_both(console: Console, tmp_path: Path, empty_store_url: str) -> None:
    here = Path.cwd()
    try:
        lite = prepared(console, tmp_path / "lite", f"sqlite:///{tmp_path}/lite/wakegate.db")
        post = prepared(console, tmp_path / "post", empty_store_url)
    finally:
        chdir(here)
    for line in PLAN:
        ran = post.ran[line]
        assert ran.code in (0, 1, 2), f"{line}: {ran}"
        assert ran.out or ran.err, line
        assert not {"Traceback", "planted-"} & set(re.findall(r"Traceback|planted-", ran.out + ran.err)), (
            f"{line}: {ran}"
        )
        if "--json" in line and ran.out:
            json.loads(ran.out)
    compared = [line for line in PLAN if leaf(line) not in DIFFERENT and line != REFUSED]
    said = {line: (post.plain(line), lite.plain(line)) for line in compared}
    assert {line: both for line, both in said.items() if both[0] != both[1]} == {}
    assert len([line for line in PLAN if lite.ran[line].code == 0]) > 35, "the plan does something"
    assert len(compared) > len(PLAN) - 9
    for line in PLAN:
        if leaf(line) in DIFFERENT - {"db restore"} or line == REFUSED:
            assert lite.ran[line].code == post.ran[line].code, line
            if "--json" in line:
                assert shape(lite.ran[line].json) == shape(post.ran[line].json), line
    assert "Make a new, empty database" in post.ran["db restore kept.db"].err, "nothing is replaced in PostgreSQL"


def shape(value: object) -> object:
    """What keys and types a JSON value has; of a list, those of any of its objects."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted({name for each in value for name in each})
    return type(value).__name__
