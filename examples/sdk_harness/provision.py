"""Provisions the desk's instance by the SDK's `Receiver`, once: `provision.py PROVISIONER_TOKEN_FILE`.

It serves meanwhile, because the provider challenges the receiver, and keeps what it got: `instance.token` for the gate,
`receiver.json` for the receiver.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import uvicorn
from agentapprovalprotocol import Receiver

DESK = json.loads(Path("desk.json").read_text())


async def main(token_file: str) -> None:
    """Provision, and keep what it gives."""
    receiver = Receiver(resumers={})
    server = uvicorn.Server(uvicorn.Config(receiver.asgi(), port=DESK["port"], log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    made = await receiver.provision(
        provider_url=DESK["provider"],
        provisioner_token=Path(token_file).read_text().strip(),
        url=f"http://127.0.0.1:{DESK['port']}/aap/events",
        instance_name="refund-desk",
    )
    kept = {"secret": made.secret, "registration_id": made.registration_id, "instance_id": made.instance_id}
    keep("instance.token", made.token)
    keep("receiver.json", json.dumps(kept))
    server.should_exit = True
    await serving


def keep(name: str, text: str) -> None:
    """Write a file that nobody else may read."""
    with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
