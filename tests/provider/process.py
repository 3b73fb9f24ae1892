"""The provider as a process of its own, on one port for all its lives; it can be made to die inside a statement."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.ports import lasting_port
from support.processes import clean_environment, script
from wakegate_schema.settings import Settings

POLICY = """
consumption = true

[[rule]]
tool = "at_once"
decision = "approve"

[[rule]]
tool = "soon"
decision = "approve"
delay = "1s"

[[rule]]
tool = "never"
decision = "deny"
note = "not this one"

[[rule]]
tool = "short"
decision = "approve"
approval_ttl = "1s"
"""


@dataclass
class Lives:
    """A provider that is started again and again, always on the same store and port."""

    folder: Path
    policy: str = POLICY
    port: int = field(default_factory=lasting_port)

    @property
    def url(self) -> str:
        """Its base URL in every life."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Settings:
        """What reviews it."""
        return Settings.model_validate({"provider_database": f"sqlite:///{self.folder}/provider.db"})

    @property
    def provisioner_token(self) -> str:
        """Its provisioner token, once it has lived."""
        return (self.folder / "provisioner.token").read_text(encoding="ascii").strip()

    @asynccontextmanager
    async def life(self, dies: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
        """Run it for as long as the block lasts, or until it kills itself.

        Args:
            dies: `written:QUERY` or `committed:QUERY`, as `dying_provider.py` takes it; else it does not.
        """
        (self.folder / "policy.toml").write_text(self.policy, encoding="utf-8")
        environment = {
            "WAKEGATE_PROVIDER_LISTEN": f"127.0.0.1:{self.port}",
            "WAKEGATE_PROVIDER_DATABASE": f"sqlite:///{self.folder}/provider.db",
            "WAKEGATE_PROVIDER_POLICY_FILE": str(self.folder / "policy.toml"),
            "WAKEGATE_LOG_FORMAT": "json",
        }
        dying = [*script(Path(__file__).with_name("dying_provider.py")), dies]
        process = await asyncio.create_subprocess_exec(
            *(dying if dies else [sys.executable, "-m", "wakegate_provider"]),
            cwd=self.folder,
            env=clean_environment() | environment,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await _listening(process)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def _listening(process: asyncio.subprocess.Process) -> None:
    """Wait for the line that the process logs when it is ready."""
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while line := await process.stderr.readline():
            if b'"action": "listening"' in line:
                return
    raise AssertionError("the provider ended without listening")
