"""TLS for the public listener, from the two files that settings name."""

import ssl
from pathlib import Path

from wakegate_schema.errors import WakegateError
from wakegate_schema.secret_files import check_private_file


class TlsFilesUnusable(WakegateError):
    """The TLS certificate and key cannot be used."""

    reason = "tls_files"


def server_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the context that serves this certificate chain, or None without one.

    Raises:
        SecretFileError: others than its owner may read the key.
        TlsFilesUnusable: a file cannot be read or is not PEM, the key is encrypted or not the certificate's.
    """
    if certificate is None or key is None:
        return None
    check_private_file(key, "the TLS private key of WAKEGATE_TLS_KEY_FILE")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        problem = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise TlsFilesUnusable(
            f"WAKEGATE_TLS_CERT_FILE, WAKEGATE_TLS_KEY_FILE: {certificate} and {key} cannot be used ({problem});"
            " they must be a PEM chain and its key without a passphrase"
        ) from error
    return context


def _no_password() -> str:
    """Keep OpenSSL from asking the terminal for a passphrase."""
    return ""
