"""Raw requests, mutated, given to two receivers: one with aiohttp's parser in C, one with that in Python (A29)."""

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fuzz.mutation import mutations
from support.hostile import STATUSES, Target, attacked

COUNT = 250
AT_ONCE = 32
Both = tuple[Target, Target]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Two receivers that know the same secret; requests that do not end are cut soon."""
    first, second = tmp_path_factory.mktemp("c"), tmp_path_factory.mktemp("python")
    with attacked(first, WAKEGATE_REQUEST_TIMEOUT="3") as in_c:
        changes = {"WAKEGATE_REQUEST_TIMEOUT": "3", "AIOHTTP_NO_EXTENSIONS": "1"}
        with attacked(second, in_c.desk, **changes) as in_python:
            yield in_c, in_python


def requests_of(target: Target) -> list[bytes]:
    """Requests to mutate: genuine ones in several framings, and some that are wrong already."""
    found = []
    for number in range(4):
        genuine = target.desk.sender.notification()
        lines = [f"{name}: {value}" for name, value in genuine.headers.items()]
        whole = [b"content-length: %d" % len(genuine.body), genuine.body]
        chunks = [b"transfer-encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(genuine.body), genuine.body)]
        framing, body = (whole, chunks)[number % 2]
        head = "\r\n".join(["POST /aap/events HTTP/1.1", "host: a", *lines]).encode()
        found.append(head + b"\r\n" + framing + b"\r\n\r\n" + body)
    found += [
        found[0] + found[2],
        found[0].replace(b"HTTP/1.1", b"HTTP/1.0"),
        found[0].replace(b"host: a", b"host: a\r\nexpect: 100-continue"),
        found[0].replace(b"content-length", b"transfer-encoding: chunked\r\ncontent-length"),
        found[1].replace(b"0\r\n\r\n", b"0\r\ntrailer: x\r\n\r\n"),
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST http://a/aap/events HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}",
    ]
    return found


def test_both_answer_every_mutated_request_as_documented_and_acknowledge_the_same(both: Both) -> None:
    """What is not HTTP they may refuse in different words; what is recorded may never depend on the parser."""
    in_c, in_python = both
    sent = [*requests_of(in_c), *mutations(requests_of(in_c), COUNT, seed=1)]
    random.Random(1).shuffle(sent)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(zip(pool.map(in_c.exchange, sent), pool.map(in_python.exchange, sent), strict=True))
    seen: Counter[int] = Counter()
    for data, (one, other) in zip(sent, answers, strict=True):
        seen.update([*one, *other])
        assert {*one, *other} - {100} <= STATUSES - {500, 503}, data
        assert one or other or not_whole(data), data
    assert seen[204] > 20
    assert seen[400] > 100
    assert in_c.rows() == in_python.rows()
    assert len(in_c.rows()) >= 4
    for target in both:
        target.unharmed()


def not_whole(data: bytes) -> bool:
    """Whether a request's head never ends, so that the connection is cut without an answer."""
    return b"\r\n\r\n" not in data and b"\n\n" not in data
