"""Enrolling: the instances of a soak, one with a secret of our own and one made the usual way."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from soak.stuck import Stuck

if TYPE_CHECKING:
    from soak.stage import Stage

INSTANCES = ("refund-desk", "payout-desk")
"""The first is delivered to by the provider and by the load; the second by the provider alone."""


async def enrol(stage: "Stage") -> None:
    """Make both instances, while provider and receivers run.

    Raises:
        Stuck: the provider, or a command, has refused.
    """
    token_file = str(stage.folder / "provisioner.token")
    provider = ("--provider-url", stage.provider_url)
    registration_id = str(uuid.uuid4())
    secret_file = _secret_file(stage.folder / "load.secret", stage.secret)
    await stage.command(
        "instance", "import", *provider, "--registration-id", registration_id,
        "--secret-file", secret_file, "--name", INSTANCES[0],
    )  # fmt: skip
    made = await _create_instance(stage, registration_id)
    stage.sender.instance_id = made["instance"]["id"]
    credential = _secret_file(stage.folder / "load.credential", made["credential"]["token"])
    await stage.command("instance", "credential", INSTANCES[0], "--credential-file", credential)
    await stage.command(
        "instance", "provision", *provider, "--provisioner-token-file", token_file,
        "--url", stage.webhook_urls[-1], "--name", INSTANCES[1],
    )  # fmt: skip


async def _create_instance(stage: "Stage", registration_id: str) -> dict[str, dict[str, str]]:
    token = (stage.folder / "provisioner.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": registration_id}
    delivery = {
        "type": "webhook",
        "url": stage.webhook_urls[0],
        "registration_id": registration_id,
        "signing_secret": stage.secret,
    }
    body = {"instance_name": INSTANCES[0], "delivery": delivery}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{stage.provider_url}/v1/instances", json=body, headers=headers) as response,
    ):
        if response.status not in (200, 201):
            raise Stuck(f"the provider made no instance: {response.status} {await response.text()}")
        made: dict[str, dict[str, str]] = await response.json()
        return made


def _secret_file(path: Path, value: str) -> str:
    path.touch(mode=0o600)
    path.write_text(value)
    return str(path)
