"""Mutations: bytes made of kept bytes, the same for the same seed."""

import random
from collections.abc import Iterator, Sequence
from typing import Final

TOKENS: Final = tuple(
    text.encode("latin-1")
    for text in (
        '"', "\\", "\\u0000", "\\ud800", "\\udc00\\ud83d", "{", "}", "[", "]", ":", ",", "null", "true", "-0", "1e999",
        "-", "0", "1.", "NaN", "-Infinity", "\0", "\n", "\r\n", "\r", "\t", " ", "\xef\xbb\xbf", "\xff", "\xc0\x80",
        "\xed\xa0\x80", "\x7f", "\x85", "9" * 700, "[" * 70, '{"a":' * 70, "webhook-id: ", "webhook-timestamp: ",
        "webhook-signature: ", "v1,", "v1a,", "=", "{good}", " {good}", "A" * 43 + "=", '"type"', '"request.resolved"',
        '"webhook.verification"', '"instance_id"', '"id"', "content-length: ", "transfer-encoding: chunked\r\n",
        "content-type: application/json", "; charset=", "; ", "; a=b",
        "expect: 100-continue\r\n", "HTTP/1.1", "/aap/events", "%",
    )
)  # fmt: skip
"""What readers of JSON, headers and HTTP trip over."""


def mutations(entries: Sequence[bytes], count: int, seed: int, longest: int = 4096) -> Iterator[bytes]:
    """Yield changed copies of the entries.

    Args:
        entries: at least one.
        count: how many.
        seed: gives the same ones again.
        longest: bytes of each at most.
    """
    chance = random.Random(seed)
    for _ in range(count):
        data = chance.choice(entries)
        for _ in range(chance.choice((1, 1, 2, 4, 8))):
            data = _change(data, chance, entries)[:longest]
        yield data


def _change(data: bytes, chance: random.Random, entries: Sequence[bytes]) -> bytes:
    at = chance.randint(0, len(data))
    to = min(len(data), at + chance.choice((1, 1, 2, 4, 16, 64)))
    kind = chance.randrange(6)
    if kind == 0:  # leave out
        return data[:at] + data[to:]
    if kind == 1:  # repeat
        return data[:to] + data[at:to] * chance.choice((1, 2, 40)) + data[to:]
    if kind == 2:  # put in
        return data[:at] + chance.choice(TOKENS) + data[at:]
    if kind == 3:  # put in the place of
        return data[:at] + chance.choice(TOKENS) + data[to:]
    if kind == 4 and data:  # flip a bit
        place = min(at, len(data) - 1)
        return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
    other = chance.choice(entries)  # join with another
    return data[:at] + other[chance.randint(0, len(other)) :]
