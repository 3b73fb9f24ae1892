"""Certificates: what a TLS server shows, whether it is trusted here, and when it ends."""

import asyncio
import ssl
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

from wakegate_console.doctor.finding import Said, lasted, ok, problem, warning
from wakegate_schema import timestamps
from wakegate_schema.clock import DAY, SECOND

SOON: Final = 14 * DAY
"""A certificate that ends sooner is warned of, µs."""
_NEVER: Final = 253_402_300_799 * SECOND
"""The last second that a date can name, µs."""


class Unreadable(ValueError):
    """It is no certificate, or one that does not keep to the rules."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of a server."""

    ends_at: int
    """µs since the Unix epoch."""
    self_signed: bool = False
    names: tuple[str, ...] = ()
    """The hosts it is for."""
    distrust: str | None = None
    """Why it is not trusted here, in OpenSSL's words; None where it is."""


async def shown_at(url: str, limit_s: float) -> Certificate | None:
    """Return the certificate that is shown where a URL leads; None also where that is not https."""
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname is None:
        return None
    return await shown_by(parts.hostname, parts.port or 443, limit_s)


async def shown_by(host: str, port: int, limit_s: float) -> Certificate | None:
    """Return the certificate that a server shows for this host, trusted or not; None where no TLS came about.

    Args:
        host: a name or an IP address; it is what the certificate must be for.
        port: where.
        limit_s: seconds for each of up to two handshakes.
    """
    try:
        found = await _handshake(host, port, ssl.create_default_context(), limit_s)
        return None if found is None else parsed(found)
    except Unreadable as error:
        return _unreadable(error)
    except ssl.SSLCertVerificationError as error:
        distrust = error.verify_message or "it cannot be verified"
    except (OSError, TimeoutError):
        return None
    try:
        found = await _handshake(host, port, taking_any(), limit_s)
        return None if found is None else parsed(found, distrust)
    except Unreadable as error:
        return _unreadable(error)
    except (OSError, TimeoutError):
        return None


def taking_any() -> ssl.SSLContext:
    """Return a context that takes any certificate: to look at it, or because the other end is this machine."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def of_file(path: Path) -> Certificate:
    """Return the first certificate of a PEM file. Raises OSError, Unreadable."""
    return _read(x509.load_pem_x509_certificate, path.read_bytes(), None)


def parsed(data: bytes, distrust: str | None = None) -> Certificate:
    """Return what a DER certificate says. Raises Unreadable."""
    return _read(x509.load_der_x509_certificate, data, distrust)


def judge(certificate: Certificate, whose: str, now: int, peer: str = "Everybody who connects") -> Said:
    """Say whether a certificate is good, and for how long.

    Args:
        certificate: the one shown.
        whose: the server, for people.
        now: µs.
        peer: who has to trust it.
    """
    left = certificate.ends_at - now
    until = _day(certificate.ends_at)
    if left <= 0:
        return problem(f"the certificate of {whose} ended on {until}", "renew it")
    if certificate.distrust is not None:
        kind, advice = _distrusted(certificate, certificate.distrust)
        return problem(f"the certificate of {whose} is {kind}", f"{advice}. {peer} refuses it otherwise")
    if left < SOON:
        return warning(f"the certificate of {whose} ends in {lasted(left / SECOND)}, on {until}", "renew it")
    return ok(f"the certificate of {whose} is trusted here and good until {until}")


def _distrusted(certificate: Certificate, distrust: str) -> tuple[str, str]:
    """Return why a certificate is not trusted, and what to do."""
    if "ostname" in distrust or "IP address" in distrust:
        return "for another host", f"it is for {', '.join(certificate.names) or 'none'}; get one for the URL's host"
    if certificate.self_signed:
        return "signed by itself", "get one from an authority that the other side trusts"
    return f"not trusted here ({distrust})", "serve the whole chain, the intermediate certificates too"


async def _handshake(host: str, port: int, context: ssl.SSLContext, limit_s: float) -> bytes | None:
    async with asyncio.timeout(limit_s):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    try:
        shown: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        return None if shown is None else shown.getpeercert(binary_form=True)
    finally:
        writer.transport.abort()


def _unreadable(error: Unreadable) -> Certificate:
    return Certificate(ends_at=_NEVER, distrust=str(error))


def _read(load: Callable[[bytes], x509.Certificate], data: bytes, distrust: str | None) -> Certificate:
    """Read a certificate that anybody may have made: whatever is wrong with it is said, and warns nobody else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _certificate(load(data), distrust)
    except Exception as error:  # noqa: BLE001 - the library has many words for it, and each is about the certificate
        raise Unreadable(f"it cannot be read: {type(error).__name__}") from None


def _certificate(found: x509.Certificate, distrust: str | None) -> Certificate:
    return Certificate(
        ends_at=int(found.not_valid_after_utc.timestamp()) * SECOND,
        self_signed=found.issuer == found.subject,
        names=_names(found),
        distrust=distrust,
    )


def _names(found: x509.Certificate) -> tuple[str, ...]:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))


def _day(at: int) -> str:
    return timestamps.render(at)[:10]
