"""A TLS certificate for loopback that signs itself."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, *, ends_in: timedelta = timedelta(days=1), host: str | None = None) -> tuple[Path, Path]:
    """Write a chain and its key into a folder; return their paths.

    Args:
        folder: where.
        ends_in: from now on, so long it is good; less than nothing for one that has ended.
        host: the name or the address that it is for, instead of 127.0.0.1.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver.test")])
    now = datetime.now(UTC)
    owner = _owner(host or "127.0.0.1")
    chain = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=90))
        .not_valid_after(now + ends_in)
        .add_extension(x509.SubjectAlternativeName([owner]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(chain.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "tls.key").chmod(0o600)
    return folder / "tls.crt", folder / "tls.key"


def _owner(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
