"""Starts and uses every kind of server, as root and then as nobody, or as whoever runs it. Run as a program.

`python -m support.server_round PG_BIN REDIS_SERVER` uses these; with `-` for the first it starts that Redis, says its
pid and folder, and waits to be killed.
"""

import os
import signal
import sys
from pathlib import Path

from support.servers import PostgresServer, RedisServer, clusters
from support.servers.process import NOBODY


def use(bin_folder: Path, program: Path) -> None:
    """Start both, write, lose what is to be lost, and end."""
    with PostgresServer(bin_folder=bin_folder, durable=True) as server:
        name = server.create_database("one")
        server.ask("CREATE TABLE kept AS SELECT 1 AS number", database=name)
        copied = server.create_database("two", template="one")
        server.kill()
        server.start()
        assert server.ask("SELECT number FROM kept", database=copied) == 1
        assert server.ask("SHOW server_encoding") == "UTF8"
        assert server.data.stat().st_uid == (os.geteuid() or NOBODY)
        assert Path(f"/proc/{server.pid}").stat().st_uid == (os.geteuid() or NOBODY)
    assert not server.folder.exists()
    with RedisServer(program=program, append_only=True) as queue, queue.client(3) as client:
        client.set("kept", "1")
        queue.kill()
        queue.start()
        assert client.get("kept") == b"1"
        queue.flush()
        assert client.get("kept") is None
        assert Path(f"/proc/{queue.pid}").stat().st_uid == (os.geteuid() or NOBODY)
    assert not queue.folder.exists()


def main() -> None:
    """Do what the arguments say."""
    bin_folder, program = sys.argv[1:]
    if bin_folder == "-":
        server = RedisServer(program=Path(program))
        server.start()
        sys.stdout.write(f"{server.pid} {server.folder}\n")
        sys.stdout.flush()
        signal.pause()
    use(Path(bin_folder), Path(program))
    if os.geteuid() == 0:
        os.environ.pop(clusters.KEPT, None)  # root's
        os.chdir("/")
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        use(Path(bin_folder), Path(program))


if __name__ == "__main__":
    main()
