"""The programs of docs/, run as they stand beside the services that the README's walk-through starts."""

import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.pages import ROOT, Shell, blocks, listens, programs, shell
from support.ports import free_port

DOCS = ROOT / "docs"
APPROVE = '[[rule]]\ntool = "*"\ndecision = "approve"\nnote = "by the policy"\n'
WAKING = ("adapter.suspend(call)", 'adapter.suspend(call, wake="my-harness")')
DRIVE = """\
import asyncio, sys
from wakegate_adapter import Adapter, Call


async def main(payment_id, amount):
    call = Call("pay_back", {"payment_id": payment_id, "amount": int(amount)})
    async with await Adapter.open("wakegate.db") as adapter:
        ticket = await adapter.suspend(call)
        outcome = await adapter.wait(ticket.execution_id)
    print(outcome.state, outcome.error)


asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell in which the README's services run, with the tools and the wake target of docs/; a policy approves."""
    readme = ROOT / "README.md"
    start, provision, *_ = [block.text for block in blocks(readme, "sh")]
    receiver, provider, wakes = free_port(), free_port(), free_port()
    changes = {"127.0.0.1:8080": f"127.0.0.1:{receiver}", "127.0.0.1:8081": f"127.0.0.1:{provider}"}
    changes |= {":9000": f":{wakes}", '"127.0.0.1", 9000': f'"127.0.0.1", {wakes}'}
    folder = tmp_path_factory.mktemp("docs")
    changes |= {"/srv/refund-desk": str(folder), "/usr/bin/python3": sys.executable}
    with shell(folder, changes) as opened:
        for page in (readme, DOCS / "tools.md", DOCS / "wakes.md", DOCS / "harness.md"):
            for name, text in programs(page).items():
                opened.write(name, text)
        (target,) = [block.text for block in blocks(DOCS / "wakes.md", "toml")]
        opened.write("wakegate.toml", target)
        opened.write("policy.toml", APPROVE)
        opened.write("drive.py", DRIVE)
        opened.paste(f"export WAKEGATE_LISTEN=127.0.0.1:{receiver} WAKEGATE_PROVIDER_LISTEN=127.0.0.1:{provider}")
        opened.paste("export WAKEGATE_PROVIDER_POLICY_FILE=policy.toml")
        opened.paste(start.replace("WAKEGATE_TOOLS=my_tools", "WAKEGATE_TOOLS=my_tools,refund_tools"))
        opened.until(lambda: listens(receiver) and listens(provider) and (opened.folder / "wake.secret").exists())
        opened.paste(provision)
        opened.paste(".venv/bin/python wakes.py > woken &")
        opened.until(lambda: listens(wakes))
        yield opened


def test_a_call_saved_by_a_process_that_ends_is_run_and_its_harness_is_woken(bash: Shell) -> None:
    (target,) = [text for name, text in programs(DOCS / "harness.md").items() if name == "save.py"]
    assert WAKING[0] in target
    bash.write("save.py", target.replace(*WAKING))
    (execution,) = bash.paste(".venv/bin/python save.py").split()
    assert bash.paste(f".venv/bin/python outcome.py {execution}").startswith("succeeded ")
    woken = bash.folder / "woken"
    bash.until(lambda: bool(woken.read_text()))
    assert woken.read_text() == "run-7:call-3 succeeded {'payment_id': 'pay_2', 'refunded': 1200}\n"
    bash.until(lambda: "delivered" in bash.paste(f".venv/bin/wakegate execution show {execution}"))


def test_a_program_and_an_entry_point_are_told_too(bash: Shell) -> None:
    save = programs(DOCS / "harness.md")["save.py"]
    for target in ("my-program", "my-agent"):
        changed = save.replace(WAKING[0], WAKING[1].replace("my-harness", target)).replace("run-7", f"run-{target}")
        bash.write("save.py", changed)
        execution = bash.paste(".venv/bin/python save.py").strip()
        bash.until(lambda one=execution: "delivered" in bash.paste(f".venv/bin/wakegate execution show {one}"))  # type: ignore[misc]
    with closing(sqlite3.connect(bash.folder / "woken.db")) as told:
        (row,) = told.execute("SELECT key, state FROM told")
    assert row == ("run-my-program:call-3", "succeeded")
    (letter,) = (bash.folder / "inbox").iterdir()
    assert json.loads(letter.read_text())["key"] == "run-my-agent:call-3"


def test_a_claimed_call_is_run_by_its_harness(bash: Shell) -> None:
    assert bash.paste(".venv/bin/python claim.py") == "succeeded\n"


def test_a_held_call_is_run_by_its_harness(bash: Shell) -> None:
    assert bash.paste(".venv/bin/python hold.py") == "succeeded {'payment_id': 'pay_4', 'refunded': 300}\n"


def test_a_call_is_held_by_hand_and_as_a_function_over_the_control_socket(bash: Shell) -> None:
    assert bash.paste(".venv/bin/python by_hand.py") == "succeeded\n"
    said = bash.paste(".venv/bin/python as_function.py")
    assert said == "succeeded {'payment_id': 'pay_6', 'refunded': '500 EUR'}\nsucceeded\n"


def test_a_turn_of_calls_is_followed_by_the_stream(bash: Shell) -> None:
    first, second = bash.paste(".venv/bin/python turn.py").splitlines()
    assert re.fullmatch(r"all of them are resolved, as far as \d+-\d+", first)
    assert second == "['succeeded', 'succeeded']"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("pay_5 100", "succeeded None"),
        ("pay_6 0", "failed the amount must be more than nothing"),
        ("closed_7 100", "failed CardDeclined: closed_7"),
    ],
)
def test_a_tool_ends_as_the_page_says(bash: Shell, arguments: str, said: str) -> None:
    assert bash.paste(f".venv/bin/python drive.py {arguments}") == f"{said}\n"


def test_the_fragments_of_the_harness_page_run(bash: Shell, tmp_path: Path) -> None:
    """Each after a call of its own that the harness runs, and that is permitted by then."""
    for number, block in enumerate(block for block in blocks(DOCS / "harness.md", "python") if not block.program):
        body = "".join(f"        {line}\n" for line in block.text.splitlines())
        bash.write(
            f"fragment_{number}.py",
            "import asyncio\nfrom wakegate_adapter import Adapter, Call\n\n\nasync def main():\n"
            '    async with await Adapter.open("wakegate.db") as adapter:\n'
            '        ticket = await adapter.suspend(Call("issue_refund", {"amount": 1}), runs="harness")\n'
            '        execution_id, claim_id = ticket.execution_id, "fragment"\n'
            "        await adapter.wait(execution_id)\n"
            f"{body}        print((await adapter.get(execution_id)).state)\n\n\nasyncio.run(main())\n",
        )
        said = bash.paste(f".venv/bin/python fragment_{number}.py")
        expected = "succeeded" if "take(" in block.text else "permitted"
        assert re.search(rf"^{expected}$", said, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell in which a provider runs and no service, with the instance that docs/library.md makes and imports."""
    port = free_port()
    start, provision, *_ = [block.text for block in blocks(DOCS / "library.md", "sh")]
    with shell(tmp_path_factory.mktemp("library"), {"127.0.0.1:8081": f"127.0.0.1:{port}"}) as opened:
        for name, text in programs(DOCS / "library.md").items():
            opened.write(name, text)
        opened.paste(f"export WAKEGATE_PROVIDER_LISTEN=127.0.0.1:{port}")
        opened.paste(start)
        opened.until(lambda: listens(port) and (opened.folder / "provisioner.token").exists())
        opened.paste(provision)
        assert not (opened.folder / "credential").exists()
        yield opened


def test_a_harness_with_a_worker_inside_needs_no_service(alone: Shell) -> None:
    _, _, run, _ = [block.text for block in blocks(DOCS / "library.md", "sh")]
    begin, listing, approve = run.splitlines()
    alone.paste(begin.replace(" &", " > held &"))
    request = asked(alone, listing)
    alone.paste(approve.replace("REQUEST", request))
    held = alone.folder / "held"
    alone.until(lambda: bool(held.read_text()))
    assert held.read_text() == "succeeded {'payment_id': 'pay_8', 'refunded': 4900}\n"


def test_a_harness_with_a_worker_inside_may_end_and_look_again(alone: Shell) -> None:
    *_, run = [block.text for block in blocks(DOCS / "library.md", "sh")]
    begin, listing, approve, again, _ = run.splitlines()
    assert alone.paste(begin) == "not decided yet: run me again\n"
    alone.paste(approve.replace("REQUEST", asked(alone, listing)))
    assert alone.paste(again) == "succeeded {'payment_id': 'pay_9', 'refunded': 700}\n"
    assert alone.paste(again) == "succeeded {'payment_id': 'pay_9', 'refunded': 700}\n", "and is not run twice"


def asked(bash: Shell, listing: str) -> str:
    """Wait until the provider's listing has a request that is to be decided; return its id."""

    def pending() -> list[str]:
        return [row["request_id"] for row in json.loads(bash.paste(f"{listing} --json")) if row["status"] == "pending"]

    bash.until(lambda: bool(pending()))
    (request,) = pending()
    return request
