"""Certificates that keep to no rule: whoever shows one is told of, and nothing else suffers by it."""

import asyncio
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from support.certificates import certificate
from wakegate_console.doctor import certificates
from wakegate_console.doctor.certificates import Unreadable
from wakegate_schema import clock

VERSION = (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x09")
SERIAL = (b"\x02\x01\x01", b"\x02\x01\xff")


def spoilt(folder: Path, was: bytes, now: bytes) -> tuple[Path, Path]:
    """A chain, and its key, in which some bytes are others."""
    chain, key = certificate(folder)
    der = x509.load_pem_x509_certificate(chain.read_bytes()).public_bytes(Encoding.DER)
    assert was in der
    chain.write_text(ssl.DER_cert_to_PEM_cert(der.replace(was, now, 1)))
    return chain, key


async def shown(chain: Path, key: Path) -> certificates.Certificate:
    """What is seen of a server that has them."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        found = await certificates.shown_by("127.0.0.1", server.sockets[0].getsockname()[1], 20)
    assert found is not None
    return found


async def test_one_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    said = certificates.judge(await shown(*spoilt(tmp_path, *VERSION)), "it", clock.now())
    assert (said.verdict, "it cannot be read: InvalidVersion" in said.what) == ("problem", True)


async def test_one_that_a_library_warns_of_is_read(tmp_path: Path) -> None:
    assert (await shown(*spoilt(tmp_path, *SERIAL))).self_signed


def test_a_file_that_holds_one_is_said_to_be_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="InvalidVersion"):
        certificates.of_file(spoilt(tmp_path, *VERSION)[0])
