"""The job that stock RQ workers run: it leaves a line, as our tool does, and makes one HTTP GET."""

import functools
import http.client
import os

from benchmarks.peers.effects import effect


def fetch(key: str, port: int, path: str) -> None:
    """Ask the provider, over the standard library's client: the leanest there is for one request at a time."""
    effect(key)
    connection = _connection(os.getpid(), port)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}")


def begin(key: str) -> None:
    """Only leave the line: what is timed is when that happens."""
    effect(key)


@functools.cache
def _connection(_pid: int, port: int) -> http.client.HTTPConnection:
    """Kept for as long as its process: for all jobs of a SimpleWorker, and for the one of a Worker's child."""
    return http.client.HTTPConnection("127.0.0.1", port)
