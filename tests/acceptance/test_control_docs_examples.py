"""Every curl command of docs/control.md, run as it stands against a real receiver."""

import asyncio
import json
import os
import re
from pathlib import Path

from support.control import Site, by_uid, control_site
from support.desk import Desk, approved
from wakegate_schema import clock
from wakegate_schema.records import RequestIdentity

PAGE = Path(__file__).parents[2] / "docs" / "control.md"
EXAMPLE = re.compile(r"^### (.+?)\n.*?^```sh\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
STATUS = 'curl() { command curl --silent --show-error --max-time 2 --write-out "\\n%{http_code}\\n" "$@"; }\n'


async def run(site: Site, script: str, **variables: str) -> tuple[list[str], int]:
    """Run a block; return what it wrote, line by line, and the last status."""
    environment = os.environ | {"SOCKET": str(site.settings.control_address)} | variables
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", STATUS + script, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out = (await process.communicate())[0].decode().split("\n")
    numbers = [line for line in out if re.fullmatch(r"\d{3}", line)]
    return out, int(numbers[-1])


async def permit(desk: Desk, execution_id: str) -> None:
    """Do what the worker does until a call is permitted."""
    leased, now = await desk.lease(execution_id), clock.now()
    await desk.store.begin_submission(leased.lease, "1", now)
    await desk.store.attach(execution_id, RequestIdentity(execution_id, now, now + clock.HOUR), now)
    assert await desk.store.permit(leased.lease, approved(clock.HOUR), now)


async def test_every_example_works_in_the_order_of_the_page() -> None:
    blocks = dict(EXAMPLE.findall(PAGE.read_text(encoding="utf-8")))
    async with control_site({"desk": by_uid(os.geteuid(), "refund-desk")}) as site:
        desk = await Desk(site.store, name="refund-desk").open()

        out, status = await run(site, blocks.pop("Who am I"))
        assert (status, json.loads(out[0])["harness"]) == (200, "desk")

        out, status = await run(site, blocks.pop("Suspend: save a call"))
        saved = json.loads(out[0])
        assert (status, saved["created"], saved["key"]) == (201, True, "run-7:call-2")
        known = {"ID": saved["execution_id"], "VERSION": saved["id"]}

        await permit(desk, known["ID"])
        out, status = await run(site, blocks.pop("Show, and wait"), **known)
        assert (status, [json.loads(line)["state"] for line in out if line[:1] == "{"]) == (200, ["permitted"] * 2)

        out, status = await run(site, blocks.pop("List"), **known)
        assert (status, [each["execution_id"] for each in json.loads(out[0])["executions"]]) == (200, [known["ID"]])

        out, status = await run(site, blocks.pop("Hold"), **known)
        assert (status, json.loads(out[0])) == (200, {"held": False})

        out, status = await run(site, blocks.pop("Claim: spend the permission"), **known)
        attempt = json.loads(out[0])["attempt"]
        assert (status, attempt["arguments"]) == (200, {"payment_id": "pay_123", "amount": 4900})
        known |= {"NUMBER": str(attempt["number"]), "TOKEN": attempt["token"]}

        out, status = await run(site, blocks.pop("Renew"), **known)
        assert (status, json.loads(out[0])) == (200, {"kept": True, "settled": False})

        out, status = await run(site, blocks.pop("Finish"), **known)
        assert (status, json.loads(out[0])["result"]) == (200, {"refund_id": "re_1"})

        out, status = await run(site, blocks.pop("Abandon"), **known)
        assert (status, json.loads(out[0])["state"]) == (200, "succeeded")

        await desk.save(group="turn-1")
        out, status = await run(site, blocks.pop("Seal a group"), **known)
        assert (status, len(json.loads(out[0])["executions"])) == (200, 1)

        async with site.stream(None, "?after=") as stream:
            cursor = (await stream.next())[0]
        out, status = await run(site, blocks.pop("Be told: the stream"), CURSOR=cursor)
        assert (status, out.count("event: ready"), out.count("event: resolution")) == (200, 2, 2)
        assert blocks == {}
