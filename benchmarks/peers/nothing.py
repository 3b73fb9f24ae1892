"""An aiohttp application whose handler does nothing, on uvloop: `python -m benchmarks.peers.nothing PORT`."""

import sys

import uvloop
from aiohttp import web

from benchmarks.load.files import PATH


async def nothing(_request: web.Request) -> web.Response:
    """Answer as a receiver that has taken it."""
    return web.Response(status=204)


def main() -> None:
    """Serve on a port of loopback."""
    app = web.Application()
    app.router.add_post(PATH, nothing)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None, loop=uvloop.new_event_loop())


if __name__ == "__main__":
    main()
