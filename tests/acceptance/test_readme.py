"""The README's walk-through, pasted block by block into a shell, up to the result of the approved call."""

import json
import re
from pathlib import Path

from support.pages import ROOT, Shell, blocks, listens, programs, shell
from support.ports import free_port

README = ROOT / "README.md"


def test_the_walk_through_ends_with_the_result_of_the_approved_call(tmp_path: Path) -> None:
    start, provision, save_and_decide, look, ask_and_stop = [block.text for block in blocks(README, "sh")]
    receiver, provider = free_port(), free_port()
    ports = {"127.0.0.1:8080": f"127.0.0.1:{receiver}", "127.0.0.1:8081": f"127.0.0.1:{provider}"}
    with shell(tmp_path, ports) as bash:
        bash.paste(f"export WAKEGATE_LISTEN=127.0.0.1:{receiver} WAKEGATE_PROVIDER_LISTEN=127.0.0.1:{provider}")
        for name, text in programs(README).items():
            bash.write(name, text)
        bash.paste(start)
        bash.until(lambda: listens(receiver) and listens(provider))
        bash.paste(provision)

        save, requests, decide = save_and_decide.splitlines()
        (execution,) = bash.paste(save).split()
        request = the_request(bash)
        assert request[:8] in bash.paste(requests)
        bash.paste(decide.replace("REQUEST", request))

        ask, stop = ask_and_stop.replace("EXECUTION", execution).splitlines()
        assert bash.paste(ask) == "succeeded {'payment_id': 'pay_1', 'refunded': 4900} go ahead\n"
        list_all, show = look.splitlines()
        assert re.search(rf"{execution[:8]}.* succeeded ", bash.paste(list_all))
        shown = bash.paste(show)
        assert execution in shown
        assert '"refunded":4900' in shown
        assert len(re.findall(r"permitted +started", shown)) == 1

        assert bash.paste(save) == f"{execution}\n"  # the same key, the same call, and it is not run again
        bash.paste(stop)
        bash.until(lambda: not listens(receiver) and not listens(provider))


def the_request(bash: Shell) -> str:
    """The id of the request, once the worker has submitted it."""
    found: list[str] = []

    def submitted() -> bool:
        found.extend(row["request_id"] for row in json.loads(bash.paste(".venv/bin/wakegate provider requests --json")))
        return bool(found)

    bash.until(submitted)
    return found[0]


def test_the_two_commands_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    short, plain = blocks(README, "")[:2]
    targets = re.findall(r"^make (\w+)", short.text, flags=re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)
    for command in re.findall(r"\.venv/bin/(wakegate demo|python -m pytest)", plain.text):
        assert f"$(BIN)/{command}" in makefile
