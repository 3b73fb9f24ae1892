"""The provider killed inside the transaction, and between commit and answer; then asked again with the same key."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from provider.process import Lives
from support.provider import Answered, Caller
from wakegate_schema import timestamps
from wakegate_schema.clock import now

Body = dict[str, Any]


async def ask(lives: Lives, method: str, path: str, token: str = "", **how: Any) -> Answered:
    """Call the provider of this moment, as its provisioner unless a token is given."""
    async with aiohttp.ClientSession() as session:
        caller = Caller(lives.url, lives.provisioner_token, session)
        return await caller.call(method, path, token=token or None, **how)


async def dies(lives: Lives, moment: str, path: str, token: str, **how: Any) -> None:
    """Ask a provider that kills itself at this moment, and get no answer."""
    async with lives.life(moment) as process:
        with pytest.raises(aiohttp.ClientError):
            await ask(lives, "POST", path, token, **how)
        assert await process.wait() == -9


async def test_whatever_it_is_killed_in_the_same_key_gets_the_one_answer(tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    async with lives.life():
        made = await ask(lives, "POST", "/v1/instances", key="i", body={})
        token = made.body["credential"]["token"]
        call = {"tool": "at_once", "arguments": {}, "timeout": "30m"}
        approved = (await ask(lives, "POST", "/v1/requests", token, key="r", body=call)).body
    path = f"/v1/requests/{approved['id']}"
    told: Body = {"status": "succeeded", "note": "once"}

    await dies(lives, "written:consume", f"{path}/consume", token, key="mine")
    undone = now()
    await dies(lives, "committed:consume", f"{path}/consume", token, key="mine")
    spent = now()
    await dies(lives, "committed:report", f"{path}/outcome", token, body=told)

    async with lives.life():
        read = (await ask(lives, "GET", path, token)).body
        again = await ask(lives, "POST", f"{path}/consume", token, key="mine")
        other = await ask(lives, "POST", f"{path}/consume", token, key="other")
        retold = await ask(lives, "POST", f"{path}/outcome", token, body=told)
        changed = await ask(lives, "POST", f"{path}/outcome", token, body={**told, "note": "twice"})
    assert (again.status, again.body) == (200, read)
    assert (retold.status, retold.body) == (200, read)
    assert (other.status, other.code) == (409, "already_consumed")
    assert (changed.status, changed.code) == (409, "outcome_conflict")
    assert undone <= timestamps.parse(read["consumption"]["consumed_at"]) <= spent
    outcome = read["consumption"].pop("outcome")
    assert timestamps.parse(outcome.pop("reported_at")) >= spent
    assert outcome == told
    assert {name: value for name, value in read.items() if name != "consumption"} == approved
