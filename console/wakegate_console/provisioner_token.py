"""The provisioner token, as the commands take it that speak to a provider, and how long they wait for one."""

from pathlib import Path
from urllib.parse import urlsplit

import click

from wakegate_console.parameters import SECRET_FILE
from wakegate_console.waiting import Wait
from wakegate_schema.sealing import BearerToken
from wakegate_schema.secret_files import SecretFileMissing, load_bearer_token
from wakegate_schema.urls import is_loopback

WAIT_S = 10.0
"""How long services that are only just starting are waited for, in seconds."""

token_file_option = click.option(
    "--provisioner-token-file",
    type=SECRET_FILE,
    required=True,
    metavar="FILE",
    help="Holds the provisioner token; nobody else may read it.",
)
wait_option = click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0, 600),
    default=WAIT_S,
    metavar="SECONDS",
    help="How long to wait for provider and receiver to listen; 10 unless given.",
)


def wait_aloud(seconds: float) -> Wait:
    """Return a wait that says on standard error what it waits for."""
    return Wait(seconds, lambda line: click.echo(line, err=True))


async def provisioner_token(path: Path, provider: str, wait: Wait) -> BearerToken:
    """Read the provisioner token. The small provider, on loopback, makes the file when it starts."""
    here = is_loopback(urlsplit(provider).hostname or "")
    while True:
        try:
            return load_bearer_token(path, "the provisioner token")
        except SecretFileMissing as error:
            if not here:
                raise
            if wait.over:
                raise SecretFileMissing(f"{error}; `wakegate provider` makes it when it starts") from error
        await wait.pause(f"{path}, which `wakegate provider` makes when it starts")
