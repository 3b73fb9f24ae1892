"""What a test does with any server: start it, stop it as it is, end it, and have nothing left of it."""

import signal
from pathlib import Path
from typing import Self

from support.servers.process import ServerProcess


class Server:
    """A server of one process; start it as a context manager or with `start`."""

    _process: ServerProcess

    @property
    def folder(self) -> Path:
        """With its socket, its log and whatever it keeps."""
        return self._process.folder

    @property
    def log(self) -> Path:
        """The file with its log."""
        return self._process.log

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.alive

    def start(self) -> None:
        """Start it and wait until it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it in order."""
        self._process.end()

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop it as it is: it answers nothing and closes nothing."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.send(signal.SIGCONT)

    def close(self) -> None:
        """End it, and remove all that it had."""
        self._process.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
